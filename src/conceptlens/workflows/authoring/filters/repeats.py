"""Near-duplicates by text vector, and what keeps opposites from being taken for them.

Text vectors put "a large cell" and "a small cell" as close as two ways to say the same. So a pair counts as one concept
only if the vectors are close and the words that differ do not say that it differs on purpose: a negation on one side,
two colors, two sizes, two parts. Words that differ without such a reason must themselves be close.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.workflows.authoring.candidates import Candidate
from conceptlens.workflows.authoring.filters.wording import leftovers, on_purpose

Embed = Callable[[Sequence[str]], Tensor]
CLOSE_WORDS = 0.5  # cosine of what is left of two texts, from which they may mean the same


@dataclass(frozen=True)
class Repeat:
    """Of two, the one that goes and the one that stays."""

    gone: int
    stays: int
    cosine: float

    def reason(self, candidates: Sequence[Candidate]) -> str:
        other = candidates[self.stays]
        return f"it says what {other.name!r} says: {other.text!r} (cosine {self.cosine:.2f})"


def repeats(
    candidates: Sequence[Candidate], vectors: Tensor, cutoff: float, embed: Embed, left: Sequence[int]
) -> list[Repeat]:
    """Pairs that say the same; the one that more classes show stays, of equals the earlier.

    Args:
        candidates: All of them.
        vectors: (K, D) of their texts, unit length.
        cutoff: Cosine from which two may be the same.
        embed: Reads the words that differ.
        left: Positions that no other filter has taken.
    """
    order = sorted(left, key=lambda at: (-len(candidates[at].classes), at))
    pairs = _close(vectors[order].double().numpy(), cutoff)
    differ = [leftovers(candidates[order[a]].text, candidates[order[b]].text) for a, b, _ in pairs]
    doubtful = [n for n, (one, two) in enumerate(differ) if one and two and not on_purpose(one, two)]
    alike = _alike([differ[n] for n in doubtful], embed)
    near = dict(zip(doubtful, alike, strict=True))
    gone: dict[int, Repeat] = {}
    for number, (a, b, cosine) in enumerate(pairs):
        first, second = order[a], order[b]
        one, two = differ[number]
        if first in gone or second in gone or _other_part(candidates[first], candidates[second]):
            continue
        # With nothing left on one side the other only adds a detail, unless that is a "no".
        if on_purpose(one, two) or near.get(number, 1.0) < CLOSE_WORDS:
            continue
        # Whoever named two values of one group meant them to differ: only the same words make them one.
        if one and two and candidates[first].group == candidates[second].group:
            continue
        gone[second] = Repeat(second, first, cosine)
    return list(gone.values())


def _close(vectors: npt.NDArray[np.float64], cutoff: float) -> list[tuple[int, int, float]]:
    """Pairs (a < b) with a cosine of at least the cut-off, in order of a, then b."""
    cosines = np.triu(vectors @ vectors.T, 1)
    first, second = np.nonzero(cosines >= cutoff)
    return [(int(a), int(b), float(cosines[a, b])) for a, b in zip(first, second, strict=True)]


def _alike(differ: Sequence[tuple[list[str], list[str]]], embed: Embed) -> list[float]:
    phrases = list(dict.fromkeys(" ".join(side) for pair in differ for side in pair))
    if not phrases:
        return []
    rows = dict(zip(phrases, embed(phrases), strict=True))
    return [float(torch.dot(rows[" ".join(one)], rows[" ".join(two)])) for one, two in differ]


def _other_part(first: Candidate, second: Candidate) -> bool:
    return bool(first.part and second.part and first.part.lower() != second.part.lower())
