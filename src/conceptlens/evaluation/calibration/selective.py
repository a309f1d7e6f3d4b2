"""Selective prediction: the error of the answers against the share of images that the model answers.

Images are answered in order of confidence. The area under the curve (AURC) lies between that of an oracle, which
abstains exactly where it errs, and the plain error, which random abstention would give (Y. Geifman, R. El-Yaniv:
Selective classification for deep neural networks, 2017).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from conceptlens.core.documents import Part
from conceptlens.stats.bootstrap import Statistic
from conceptlens.stats.estimates import Bootstrap, Estimate, mean_of_column
from conceptlens.stats.weighted import ratio

Floats = npt.NDArray[np.float64]
TARGETS = (0.01, 0.02, 0.05, 0.1)
POINTS = 50


class OperatingPoint(Part):
    """An operating point: chosen on validation, measured on the test."""

    target: float  # error that was aimed at
    confidence: float | None  # answer from this confidence on; None: no validation error is that small
    answered: Estimate  # share of test images
    error: Estimate  # of those


class RiskCoverage(Part):
    """The curve of a split."""

    images: int
    error: Estimate  # with every image answered: that of random abstention too
    area: Estimate
    oracle: float
    points: list[tuple[float, float]]  # share answered, error
    operating_points: list[OperatingPoint]


def block_ends(confidence: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The order of falling confidence, and for each place in it the last place of the same confidence."""
    order = np.argsort(-confidence, kind="stable")
    ranked = confidence[order]
    last = np.searchsorted(-ranked, -ranked, side="right") - 1
    return order, last.astype(np.int64)


def area_statistic(confidence: Floats, wrong: Floats) -> Statistic:
    """AURC as a function of image weights (R, N); images of equal confidence are answered together."""
    order, last = block_ends(confidence)
    errors = wrong[order]

    def area(weights: Floats) -> Floats:
        own = weights[:, order]
        answered, missed = np.cumsum(own, axis=1)[:, last], np.cumsum(own * errors, axis=1)[:, last]
        risk = np.divide(missed, answered, out=np.zeros_like(missed), where=answered > 0)
        return ratio((own * risk).sum(1), own.sum(1))

    return area


def risk_coverage(
    confidence: Floats, hit: Floats, units: Sequence[str], validation: tuple[Floats, Floats], *, resamples: int = 1000
) -> RiskCoverage | None:
    """The curve and its operating points.

    Args:
        confidence: (N,) of test images.
        hit: (N,) 1 right, 0 wrong, NaN unknown.
        units: (N,) for intervals.
        validation: Confidence and hits of validation images, on which thresholds are chosen.
        resamples: Of the intervals.
    """
    known = ~np.isnan(hit)
    if not known.any():
        return None
    sure, wrong = confidence[known], 1 - hit[known]
    bootstrap = Bootstrap([units[row] for row in np.flatnonzero(known).tolist()], resamples)
    area = bootstrap.of({"area": area_statistic(sure, wrong), "error": mean_of_column(wrong)})
    order, last = block_ends(sure)
    risk = (np.cumsum(wrong[order]) / np.arange(1, len(order) + 1))[last]
    share = (last + 1) / len(order)
    shown = np.unique(np.linspace(0, len(order) - 1, min(POINTS, len(order))).round().astype(np.int64))
    best = np.sort(wrong)
    return RiskCoverage(
        images=int(known.sum()),
        error=area["error"],
        area=area["area"],
        oracle=float((np.cumsum(best) / np.arange(1, len(best) + 1)).mean()),
        points=[(float(share[place]), float(risk[place])) for place in shown],
        operating_points=[_operating_point(target, sure, wrong, validation, bootstrap) for target in TARGETS],
    )


def choose_confidence(confidence: Floats, hit: Floats, target: float) -> float | None:
    """The smallest confidence from which on the error of the answers is at most the target; None if it never is."""
    known = ~np.isnan(hit)
    sure, wrong = confidence[known], 1 - hit[known]
    order, last = block_ends(sure)
    risk = (np.cumsum(wrong[order]) / np.arange(1, len(order) + 1))[last]
    kept = np.flatnonzero(risk <= target)
    return float(sure[order][kept[-1]]) if len(kept) else None


def _operating_point(
    target: float, sure: Floats, wrong: Floats, validation: tuple[Floats, Floats], bootstrap: Bootstrap
) -> OperatingPoint:
    bound = choose_confidence(*validation, target)
    answered = np.zeros(len(sure)) if bound is None else (sure >= bound).astype(np.float64)
    found = bootstrap.means({"answered": answered, "error": np.where(answered > 0, wrong, np.nan)})
    return OperatingPoint(target=target, confidence=bound, answered=found["answered"], error=found["error"])
