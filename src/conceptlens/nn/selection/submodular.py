"""Which k of a class's candidate concepts to keep: those that tell classes apart and stand for the others.

LaBo (Y. Yang et al., Language in a Bottle, CVPR 2023), section 3.2. Of the candidates S of a class those in C are kept:

    F(C) = α Σ_{c∈C} D(c) + β Σ_{s∈S} max_{c∈C} φ(s, c)

D(c), the discriminability, is how unevenly the classes share a concept; φ is the cosine of two texts. F is a sum and a
facility location, hence submodular: a gain can only fall as C grows. So an old gain is an upper bound, and only the few
candidates whose bound reaches the best gain are looked at again. At a fixed k a constant added to D changes nothing;
with D + log C, which is not negative, F is monotone, and the greedy choice within 1 − 1/e of the best.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import UserError

Floats = npt.NDArray[np.float64]
Likelihood = Literal["ratio", "softmax"]
BLOCK = 16  # candidates whose gains are brought up to date together
ROUNDING = 1e-9  # relative to a gain


def likelihood(similarity: Floats, kind: Likelihood, scale: float = 100.0) -> Floats:
    """What becomes p(class | concept) when divided by its sum over the classes.

    Args:
        similarity: (C, K): mean cosine of each class's images with each concept's text.
        kind: The similarity itself, as the paper, or e to the similarity times `scale`, which may be negative.
        scale: As CLIP's.

    Raises:
        UserError: A similarity is not above 0, so that it is no share of a sum.
    """
    if kind == "softmax":
        return np.asarray(np.exp(scale * (similarity - similarity.max(0))), np.float64)
    if (lowest := float(similarity.min())) <= 0:
        raise UserError(
            "method.likelihood: `ratio` divides similarities by their sum, so each must be above 0, but the lowest is "
            f"{lowest:.3f}. With this encoder use `likelihood: softmax`."
        )
    return similarity.astype(np.float64)


def negative_entropy(likelihoods: Floats) -> Floats:
    """D(c) = Σ_y p(y|c) log p(y|c), (K,): 0 if one class has the concept alone, −log C if all share it."""
    shares = likelihoods / likelihoods.sum(0)
    return np.asarray((shares * np.log(np.maximum(shares, 1e-300))).sum(0), np.float64)


def mutual_information(likelihoods: Floats) -> Floats:
    """D(c) of the published code, (K,): Σ_y p(c,y) log (p(c,y) / p(c) p(y)), every class having the same mass.

    p(c,y) = likelihood(y, c) / (C Σ_c' likelihood(y, c')): unlike the entropy it favors concepts that are seen often.
    """
    joint = likelihoods / (likelihoods.sum(1, keepdims=True) * len(likelihoods))
    inside = joint * len(joint) / np.maximum(joint.sum(0), 1e-300)
    return np.asarray((joint * np.log(np.maximum(inside, 1e-300))).sum(0), np.float64)


def objective(chosen: npt.NDArray[np.int64], value: Floats, likeness: Floats, *, alpha: float, beta: float) -> float:
    """F of a choice.

    Args:
        chosen: Positions among the n candidates.
        value: (n,): D of each candidate.
        likeness: (n, n): φ of each pair; one that is below 0 covers nothing.
        alpha: Weight of the discriminability.
        beta: Weight of the coverage.
    """
    if not len(chosen):
        return 0.0
    covered = np.maximum(likeness[:, chosen].max(1), 0).sum()
    return float(alpha * value[chosen].sum() + beta * covered)


def greedy(value: Floats, likeness: Floats, k: int, *, alpha: float = 1.0, beta: float = 1.0) -> npt.NDArray[np.int64]:
    """k candidates, or all if there are fewer, in the order in which they were chosen; of equals, the first.

    Args:
        value: (n,): D of each candidate.
        likeness: (n, n): φ of each pair, symmetric; one that is below 0 covers nothing.
        k: How many.
        alpha: Weight of the discriminability.
        beta: Weight of the coverage.
    """
    n = len(value)
    covers = np.maximum(likeness, 0).astype(np.float64)
    fixed = alpha * value  # the part of a gain that never changes
    covered = np.zeros(n)
    bounds = fixed + beta * covers.sum(1)
    chosen = np.empty(min(k, n), np.int64)
    for at in range(len(chosen)):
        best = _best(bounds, fixed, covers, covered, beta, fresh=at == 0)
        chosen[at] = best
        np.maximum(covered, covers[best], out=covered)
        bounds[best] = -np.inf
    return chosen


def _best(bounds: Floats, fixed: Floats, covers: Floats, covered: Floats, beta: float, *, fresh: bool) -> int:
    """The candidate with the largest gain. `bounds`, its gains of earlier on, are brought up to date where needed."""
    reached = float(bounds.max())
    if not fresh and beta > 0:
        order = np.argsort(-bounds, kind="stable")
        reached = -np.inf
        for start in range(0, len(order), BLOCK):
            block = order[start : start + BLOCK]
            if bounds[block[0]] < _equal(reached):
                break
            block = block[bounds[block] > -np.inf]
            bounds[block] = fixed[block] + beta * np.maximum(covers[block] - covered, 0).sum(1)
            reached = max(reached, float(bounds[block].max()))
    return int(np.flatnonzero(bounds >= _equal(reached))[0])


def _equal(gain: float) -> float:
    """Above this a gain is no smaller: two texts that stand for each other alone gain the same but for rounding."""
    return gain - ROUNDING * abs(gain) if np.isfinite(gain) else gain
