"""AUC from pairs of one stratum only, under many sets of image weights at once (see `weighted`, and `auc_within`)."""

import numpy as np
import numpy.typing as npt

from conceptlens.stats.weighted import ratio

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def weighted_auc_within(
    scores: npt.ArrayLike, positive: npt.ArrayLike, strata: npt.ArrayLike, weights: Floats
) -> Floats:
    """AUC (R,) of scores (N,) for outcomes (N,) within strata (N,); images of a negative stratum are left out.

    The strata's AUCs are averaged by their weight of pairs. A tie counts half; NaN where no stratum holds a pair.
    """
    values, marks, stratum = np.asarray(scores, np.float64), np.asarray(positive, bool), np.asarray(strata, np.int64)
    sign, rare, rest = 1.0, np.flatnonzero((stratum >= 0) & marks), np.flatnonzero((stratum >= 0) & ~marks)
    if len(rare) > len(rest):
        sign, rare, rest = -1.0, rest, rare  # mirrored, so that the larger gathering is over the rarer outcome
    place, span = stratum_places(sign * values, stratum)
    rest = rest[np.argsort(place[rest], kind="stable")]
    ladder = place[rest]
    by_image = weights.T
    below = np.zeros((len(rest) + 1, weights.shape[0]))
    np.cumsum(by_image[rest], axis=0, out=below[1:])
    own = by_image[rare]
    first = stratum[rare] * span
    low, high = np.searchsorted(ladder, place[rare], "left"), np.searchsorted(ladder, place[rare], "right")
    start, end = np.searchsorted(ladder, first, "left"), np.searchsorted(ladder, first + span, "left")
    before = np.einsum("pr,pr->r", own, below[start])
    won = (np.einsum("pr,pr->r", own, below[low]) + np.einsum("pr,pr->r", own, below[high])) / 2 - before
    pairs = np.einsum("pr,pr->r", own, below[end]) - before
    return ratio(won, pairs)


def stratum_places(values: Floats, strata: Integers) -> tuple[Integers, int]:
    """Whole numbers (N,) that order images by stratum, then by value; stratum s begins at s · span."""
    distinct, ranks = np.unique(values, return_inverse=True)
    span = len(distinct) + 1
    return strata * span + ranks.reshape(-1), span
