"""LF-CBM's filters: which concepts of a list a bottleneck should do without (ICLR 2023, sections 3.1 and 3.3).

Each returns the concepts to leave out, by position, with the reason in words. Cosines are those of the text encoder at
hand: another encoder has another scale, so a cut-off that suits one may empty the list of another.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet

Reasons = dict[int, str]
By = Literal["value", "quantile"]


def too_long(concepts: ConceptSet, longest: int) -> Reasons:
    """Concepts whose value has more characters than a person reads at a glance; 0 keeps all."""
    return {
        at: f"its name has {len(concept.value)} characters, more than {longest}"
        for at, concept in enumerate(concepts.concepts)
        if 0 < longest < len(concept.value)
    }


def like_a_class(text: Tensor, class_text: Tensor, classes: Sequence[str], cutoff: float) -> Reasons:
    """Concepts whose text (K, D) says nearly what a class's name (C, D) says: they would name the answer."""
    nearest = (text @ class_text.T).max(1)
    return {
        at: f"its text is too close to the class {classes[int(nearest.indices[at])]} (cosine {float(cosine):.2f})"
        for at, cosine in enumerate(nearest.values)
        if float(cosine) > cutoff
    }


def like_another(text: Tensor, names: Sequence[str], cutoff: float, without: Reasons) -> Reasons:
    """Of two concepts whose texts say nearly the same, the one that is less like all others: the general one stays."""
    cosines = (text @ text.T).double()
    left = [at for at in range(len(text)) if at not in without]
    general = cosines[:, left].sum(1)
    found: Reasons = {}
    for first, second in combinations(left, 2):
        cosine = float(cosines[first, second])
        if cosine > cutoff and first not in found and second not in found:
            gone, stays = (first, second) if general[first] < general[second] else (second, first)
            found[gone] = f"its text is too close to {names[stays]} (cosine {cosine:.2f})"
    return found


def seldom_seen(strongest: Tensor, cutoff: float, by: By) -> Reasons:
    """Concepts that no image shows, by their strongest activations.

    Args:
        strongest: (K,): mean of the largest activations of each concept over the training images.
        cutoff: Leave out what is below: an activation, or with `by` quantile a share of the concepts.
        by: What the cut-off speaks of.
    """
    bound = float(torch.quantile(strongest.double(), min(max(cutoff, 0.0), 1.0))) if by == "quantile" else cutoff
    return {
        at: f"no training image shows it clearly (strongest activations {float(value):.3f}, cut-off {bound:.3f})"
        for at, value in enumerate(strongest.double())
        if float(value) < bound
    }


def not_learned(similarity: Tensor, cutoff: float, positions: Sequence[int]) -> Reasons:
    """Concepts whose projection does not follow its targets on held-out images; `similarity` (k,) of `positions`."""
    return {
        position: f"the projection does not follow it on validation (similarity {float(value):.2f}, cut-off {cutoff:g})"
        for position, value in zip(positions, similarity, strict=True)
        if not float(value) >= cutoff
    }
