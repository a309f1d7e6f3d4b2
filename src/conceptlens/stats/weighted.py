"""Core statistics under many sets of image weights at once, for the bootstrap.

To draw images again with replacement is to weigh each by how often it was drawn. So a thousand resamples are one matrix
W (R, N) of counts, and a statistic over all of them is a few matrix products instead of a thousand passes. With integer
weights each function equals the plain statistic of the repeated images, with weights of one that of the images
themselves. Resamples in which a statistic has no value get NaN. W may be in either memory order; column by column is
the fast one for `weighted_auc`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def weighted_accuracy(correct: npt.ArrayLike, weights: Floats, known: npt.ArrayLike | None = None) -> Floats:
    """Share correct (R,) of `correct` (N,), of the images marked in `known` (N,)."""
    hits = np.asarray(correct, dtype=np.float64)
    counted = np.ones(len(hits)) if known is None else np.asarray(known, dtype=np.float64)
    return ratio(weights @ (hits * counted), weights @ counted)


def weighted_balanced_accuracy(
    predicted: npt.NDArray[np.int64], labels: npt.NDArray[np.int64], weights: Floats, *, at_least: int = 1
) -> Floats:
    """Mean recall (R,) over classes that occur in a resample, if at least so many do; negative labels are left out."""
    classes = int(labels.max(initial=-1)) + 1
    members = (labels[:, None] == np.arange(classes)).astype(np.float64)
    found = members * (predicted == labels)[:, None]
    return mean_known(ratio(weights @ found, weights @ members), at_least=at_least)


def weighted_auc(
    scores: npt.ArrayLike, positive: npt.ArrayLike, weights: Floats, known: npt.ArrayLike | None = None
) -> Floats:
    """AUC (R,) of scores (N,) for outcomes (N,), over the images marked in `known` (N,); a tie counts half."""
    values, marks = np.asarray(scores, dtype=np.float64), np.asarray(positive, dtype=bool)
    asked = np.ones(len(values), dtype=bool) if known is None else np.asarray(known, dtype=bool)
    sign, rare, rest = 1.0, np.flatnonzero(asked & marks), np.flatnonzero(asked & ~marks)
    if len(rare) > len(rest):
        # Mirrored, so that the loop over one outcome is over the rarer one.
        sign, rare, rest = -1.0, rest, rare
    rest = rest[np.argsort(sign * values[rest], kind="stable")]
    ladder, place = sign * values[rest], sign * values[rare]
    low, high = np.searchsorted(ladder, place, side="left"), np.searchsorted(ladder, place, side="right")
    by_image = weights.T
    below = np.zeros((len(rest) + 1, weights.shape[0]))
    np.cumsum(by_image[rest], axis=0, out=below[1:])
    own = by_image[rare]
    won = np.einsum("pr,pr->r", own, below[low]) + np.einsum("pr,pr->r", own, below[high])
    return ratio(won / 2, own.sum(0) * below[-1])


def mean_known(values: Floats, *, at_least: int = 1) -> Floats:
    """Mean over the last axis of what is not NaN; NaN where there are fewer than `at_least` values."""
    there = ~np.isnan(values)
    count = there.sum(-1)
    return ratio(np.where(there, values, 0.0).sum(-1), np.where(count >= max(at_least, 1), count, 0))


def ratio(part: npt.NDArray[Any], whole: npt.NDArray[Any]) -> Floats:
    """A part of a whole; NaN where there is no whole."""
    found: Floats = np.divide(part, whole, out=np.full(np.shape(whole), np.nan), where=whole > 0)
    return found
