"""Conformal prediction sets: answers that hold the truth as often as promised, whatever the model.

Split conformal prediction (V. Vovk, A. Gammerman, G. Shafer: Algorithmic learning in a random world, 2005) with the
score 1 − p of the true answer (M. Sadinle, J. Lei, L. Wasserman: Least ambiguous set-valued classifiers, 2019): with n
calibration images, an answer is in the set if its score is at most the ⌈(n + 1)(1 − α)⌉-th smallest of theirs. New
images that are exchangeable with them are covered with probability 1 − α or more. How often a particular calibration
covers is itself a matter of chance, a beta distribution; the range that a test of this size should fall into is given.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import betabinom

from conceptlens.core.documents import Part
from conceptlens.stats.conformal import rank, thresholds
from conceptlens.stats.estimates import Bootstrap, Estimate

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
ALPHA = 0.1


class SetsByAnswer(Part):
    """Images whose true answer this is."""

    answer: str
    images: int
    coverage: float | None
    size: float | None  # mean number of answers in their sets


class PredictionSets(Part):
    """The sets of one question: which class, or which value of a concept."""

    question: str
    wanted: float  # coverage
    calibrated_on: int  # images
    threshold: float | None  # an answer is in the set if its probability is at least this; None: every answer is
    coverage: Estimate
    between: tuple[float, float] | None  # where 95 of 100 tests of exchangeable images would find the coverage
    holds: bool | None  # whether it is not below that
    size: Estimate  # mean number of answers in a set
    single: Estimate  # share of sets with one answer
    empty: float | None  # share of sets without any: nothing fits
    answers: list[SetsByAnswer]


def expected_range(
    calibrated: int, tested: int, alpha: float, *, confidence: float = 0.95
) -> tuple[float, float] | None:
    """Coverage of `tested` new images that chance allows after a calibration with `calibrated` exchangeable ones."""
    place = rank(calibrated, alpha)
    if place > calibrated or not tested:
        return None
    tail = (1 - confidence) / 2
    counts = betabinom.ppf([tail, 1 - tail], tested, place, calibrated + 1 - place)
    return float(counts[0] / tested), float(counts[1] / tested)


def prediction_sets(
    question: str,
    answers: Sequence[str],
    calibration: tuple[Floats, Indices],
    test: tuple[Floats, Indices],
    units: Sequence[str],
    *,
    alpha: float = ALPHA,
    resamples: int = 1000,
    each: bool = False,
) -> PredictionSets | None:
    """Sets of one question.

    Args:
        question: Its name.
        answers: (V,) names.
        calibration: Probabilities (n, V) and true answers (n,) of calibration images, negative where unknown.
        test: The same of images on which the sets are judged.
        units: (N,) of the test images, for intervals.
        alpha: Share of images that may be missed.
        resamples: Of the intervals.
        each: Calibrate each true answer by itself, so that the promise holds for images of every answer.

    Returns:
        None where nothing is known of calibration or test images.
    """
    learned, asked = calibration[1] >= 0, test[1] >= 0
    if not learned.any() or not asked.any():
        return None
    probabilities, truth = test[0][asked], test[1][asked]
    bounds = thresholds(calibration[0][learned], calibration[1][learned], len(answers), alpha, each=each)
    chosen = 1 - probabilities <= bounds
    covered = chosen[np.arange(len(truth)), truth].astype(np.float64)
    size = chosen.sum(1).astype(np.float64)
    own = [units[row] for row in np.flatnonzero(asked).tolist()]
    found = Bootstrap(own, resamples).means({"coverage": covered, "size": size, "single": (size == 1).astype(float)})
    between = None if each else expected_range(int(learned.sum()), len(truth), alpha)
    common = float(bounds[0]) if not each else math.inf
    return PredictionSets(
        question=question,
        wanted=1 - alpha,
        calibrated_on=int(learned.sum()),
        threshold=1 - common if math.isfinite(common) else None,
        coverage=found["coverage"],
        between=between,
        holds=None if between is None else bool(covered.mean() >= between[0]),
        size=found["size"],
        single=found["single"],
        empty=float((size == 0).mean()),
        answers=[
            SetsByAnswer(
                answer=name,
                images=int((truth == place).sum()),
                coverage=float(covered[truth == place].mean()) if (truth == place).any() else None,
                size=float(size[truth == place].mean()) if (truth == place).any() else None,
            )
            for place, name in enumerate(answers)
        ],
    )
