"""Agreement between raters beyond chance: weighted kappa (Cohen, 1968) of pairs, Krippendorff's alpha (1980) of all."""

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt

Weights = Literal["none", "linear", "quadratic"]
Floats = npt.NDArray[np.float64]


def _distance(count: int, weights: Weights) -> Floats:
    """How far two of `count` ordered answers are apart, (C, C)."""
    places = np.arange(count, dtype=np.float64)
    apart = np.abs(places[:, None] - places)
    if weights == "none":
        return (apart > 0).astype(np.float64)
    return apart if weights == "linear" else apart**2


def weighted_kappa(
    first: npt.ArrayLike, second: npt.ArrayLike, count: int, weights: Weights = "quadratic"
) -> float | None:
    """Cohen's kappa of two raters: 1 − observed / expected disagreement.

    Args:
        first: (N,) answers as numbers from 0 to `count` − 1.
        second: (N,) of the other rater, of the same items.
        count: How many different answers there are.
        weights: Of disagreements; `none` for answers without an order.

    Returns:
        None where nothing could disagree: no items, or both gave one answer throughout.
    """
    one, two = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
    if not len(one):
        return None
    table = np.zeros((count, count))
    np.add.at(table, (one, two), 1)
    table /= table.sum()
    apart = _distance(count, weights)
    expected = float((np.outer(table.sum(1), table.sum(0)) * apart).sum())
    return 1 - float((table * apart).sum()) / expected if expected > 0 else None


def mean_kappa(answers: npt.NDArray[np.int64], count: int, weights: Weights = "quadratic") -> float | None:
    """Light's kappa of R raters: the mean over pairs, on the items both answered; answers (R, N), negative: none."""
    found = [
        kappa
        for one, two in combinations(answers, 2)
        if (kappa := weighted_kappa(one[(one >= 0) & (two >= 0)], two[(one >= 0) & (two >= 0)], count, weights))
        is not None
    ]
    return float(np.mean(found)) if found else None


def krippendorff_alpha(answers: npt.NDArray[np.int64], count: int, weights: Weights = "quadratic") -> float | None:
    """Alpha of R raters of N items, answers (R, N), negative where one is missing.

    With `quadratic` weights this is the interval form, with `none` the nominal one. Items with fewer than two answers
    say nothing of agreement and are left out.
    """
    coincidence = np.zeros((count, count))
    for column in answers.T:
        given = column[column >= 0]
        if len(given) < 2:
            continue
        tally = np.bincount(given, minlength=count).astype(np.float64)
        coincidence += (np.outer(tally, tally) - np.diag(tally)) / (len(given) - 1)
    total = coincidence.sum()
    if total == 0:
        return None
    apart = _distance(count, weights)
    marginal = coincidence.sum(1)
    expected = float((np.outer(marginal, marginal) - np.diag(marginal))[apart > 0] @ apart[apart > 0]) / (total - 1)
    observed = float((coincidence * apart).sum())
    return 1 - observed / expected if expected > 0 else None


def pairs(
    raters: Sequence[str], answers: npt.NDArray[np.int64], count: int, weights: Weights
) -> dict[str, float | None]:
    """Kappa of each pair, by their names."""
    return {
        f"{raters[a]} and {raters[b]}": mean_kappa(answers[[a, b]], count, weights)
        for a, b in combinations(range(len(raters)), 2)
    }
