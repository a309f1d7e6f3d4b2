"""How the logit of a class, or the difference of two, is made up of what the concepts add.

With a linear head, logit_c = bias_c + Σ_k w_ck b_k, b being the bottleneck. Against a reference r (the average image)
this is (bias_c + Σ_k w_ck r_k) + Σ_k w_ck (b_k − r_k): a base and one number for each concept, without a remainder.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from conceptlens.explanations.document import LogitDecomposition
from conceptlens.methods.linear_head import LinearHead

Floats = npt.NDArray[np.float64]
MEAN = "mean"


def decompose_logit(
    head: LinearHead,
    names: Sequence[str],
    of: int,
    minus: int | str | None,
    scores: Floats,
    reference: Floats,
    said: Floats,
) -> LogitDecomposition:
    """The decomposition of class `of` of one image.

    Args:
        head: The class head.
        names: (C,) of the classes.
        of: The class.
        minus: Another class, `MEAN`, or None for the logit itself.
        scores: (K,) the image's bottleneck.
        reference: (K,) the bottleneck it is compared with.
        said: (C,) the model's logits.
    """
    side = np.zeros(len(names))
    side[of] = 1
    if isinstance(minus, int):
        side[minus] -= 1
    elif minus == MEAN:
        side -= 1 / len(names)
    weight, bias = side @ head.weight, float(side @ head.bias)
    by_concepts = bias + float(weight @ scores)
    bypass = float(side @ said) - by_concepts if head.bypass else 0.0
    return LogitDecomposition(
        of=names[of],
        minus=names[minus] if isinstance(minus, int) else minus,
        total=by_concepts + bypass,
        base=bias + float(weight @ reference),
        values=(weight * (scores - reference)).tolist(),
        bypass=bypass,
    )
