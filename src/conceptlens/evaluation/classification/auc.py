"""Area under the ROC curve as the share of (positive, negative) pairs in the right order, a tie counting half."""

import numpy as np
import numpy.typing as npt


def auc(scores: npt.ArrayLike, positive: npt.ArrayLike) -> float | None:
    """AUC of scores (N,) for outcomes (N,); None unless both outcomes occur."""
    marks = np.asarray(positive, dtype=bool)
    return auc_within(scores, marks, np.zeros(len(marks), dtype=np.int64))


def auc_within(scores: npt.ArrayLike, positive: npt.ArrayLike, strata: npt.ArrayLike) -> float | None:
    """AUC from pairs of the same stratum only.

    This is the mean of the strata's AUCs weighted by their numbers of pairs, positives × negatives. A score that only
    tells strata apart gets 0.5, however high its pooled AUC.

    Args:
        scores: (N,) finite numbers.
        positive: (N,) outcomes.
        strata: (N,) integers, such as classes.

    Returns:
        The AUC, or None if no stratum holds both outcomes.
    """
    values, marks, stratum = np.asarray(scores), np.asarray(positive, dtype=bool), np.asarray(strata)
    if not len(values):
        return None
    order = np.lexsort((values, stratum))
    values, marks, stratum = values[order], marks[order], stratum[order]
    first = np.r_[True, stratum[1:] != stratum[:-1]]
    new = first | np.r_[True, values[1:] != values[:-1]]
    starts = np.flatnonzero(new)
    # Equal scores share the mean of the places they occupy, counted from 0 over all strata.
    places = (starts + np.r_[starts[1:], len(values)] - 1) / 2
    index = np.cumsum(first) - 1
    within = places[np.cumsum(new) - 1] - np.flatnonzero(first)[index]
    positives = np.bincount(index, marks)
    negatives = np.bincount(index, ~marks)
    pairs = float(positives @ negatives)
    if pairs == 0:
        return None
    # Places of positives, less those they take among themselves, count the negatives below them.
    below = np.bincount(index, within * marks) - positives * (positives - 1) / 2
    return float(below.sum() / pairs)
