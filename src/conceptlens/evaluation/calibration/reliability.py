"""Reliability diagrams, and the calibration error that a calibrated model would have.

Answers are put into bins of equally many, in order of confidence (A. Niculescu-Mizil, R. Caruana: Predicting good
probabilities with supervised learning, 2005). Beside the share that is right stands the range in which it would lie if
the confidences were true, so that few images are not overinterpreted (J. Bröcker, L. Smith: Increasing the
reliability of reliability diagrams, 2007).
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy.stats import binom

from conceptlens.concepts import ConceptSet
from conceptlens.core.documents import Part
from conceptlens.evaluation.calibration.ece import expected_calibration_error
from conceptlens.evaluation.concepts.groups import group_scores
from conceptlens.runs.predictions import StoredPredictions
from conceptlens.stats.bootstrap import Statistic
from conceptlens.stats.estimates import Bootstrap

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
BINS = 15
DRAWS = 200  # of calibrated answers, for the error that chance alone gives
ALL = "all concepts"


class CalibrationBin(Part):
    """Answers of about the same confidence."""

    answers: int
    confidence: float  # mean
    right: float  # share
    between: tuple[float, float] | None  # where 95 of 100 calibrated models would have it; None for several labels


class Calibration(Part):
    """Of one question: the class that is said, or the value of a concept."""

    question: str = "class"
    answers: int = 0
    confidence: float | None = None  # mean
    right: float | None = None  # share
    error: float | None  # expected calibration error, equally many answers a bin
    by_chance: float | None  # of a perfectly calibrated model with these confidences; None for several labels
    p: float | None = None  # that such a model's error is as large
    interval: tuple[float, float] | None = None  # of the error, over images; None: not measured
    bins: int
    points: list[CalibrationBin] = Field(default_factory=list)


def calibration(
    question: str,
    confidence: Floats,
    hit: Floats,
    *,
    bins: int = BINS,
    images: Indices | None = None,
    bootstrap: Bootstrap | None = None,
) -> Calibration:
    """The calibration of answers to one question.

    Args:
        question: Its name.
        confidence: (N,) stated probabilities.
        hit: (N,) 1 right, 0 wrong, a share of several labels, NaN unknown.
        bins: How many, at most.
        images: (N,) the image that each answer is about; by default each is about its own.
        bootstrap: How the error's interval is made; none by default.
    """
    known = ~np.isnan(hit)
    order = np.argsort(confidence[known], kind="stable")
    sure, right = confidence[known][order], hit[known][order]
    error = expected_calibration_error(sure, right, bins=bins, spacing="mass")
    if error is None:
        return Calibration(question=question, error=None, by_chance=None, bins=bins)
    starts = np.unique(-(-np.arange(bins) * len(sure) // bins))  # ⌈bin · N / bins⌉, the first answer of each bin
    starts = starts[starts < len(sure)]  # with fewer answers than bins, some bins are empty
    single = bool(np.isin(right, (0, 1)).all())  # of several labels, the share right is no single draw
    by_chance, p = _chance(sure, starts, error) if single else (None, None)
    interval = None
    if bootstrap is not None:
        about = (np.arange(len(hit)) if images is None else images)[known][order]
        statistic = _error_statistic(sure - right, starts, about, len(bootstrap.units))
        interval = bootstrap.of({"error": statistic})["error"].interval
    return Calibration(
        question=question,
        answers=len(sure),
        confidence=float(sure.mean()),
        right=float(right.mean()),
        error=error,
        by_chance=by_chance,
        p=p,
        interval=interval,
        bins=bins,
        points=list(_points(sure, right, starts, single=single)),
    )


def _error_statistic(gaps: Floats, starts: Indices, images: Indices, count: int) -> Statistic:
    """The error as a function of image weights (R, N); bins stay as they are, and an image brings all its answers."""
    into = np.searchsorted(starts, np.arange(len(gaps)), side="right") - 1
    sums, answers = np.zeros((count, len(starts))), np.bincount(images, minlength=count).astype(np.float64)
    np.add.at(sums, (images, into), gaps)

    def error(weights: Floats) -> Floats:
        total = weights @ answers
        return np.asarray(
            np.divide(np.abs(weights @ sums).sum(1), total, out=np.full(len(total), np.nan), where=total > 0)
        )

    return error


def _points(sure: Floats, right: Floats, starts: Indices, *, single: bool) -> Iterator[CalibrationBin]:
    for first, end in zip(starts.tolist(), [*starts[1:].tolist(), len(sure)], strict=True):
        n, stated = end - first, float(sure[first:end].mean())
        # A binomial of the mean spreads a little more than draws with a probability each.
        low, high = binom.ppf((0.025, 0.975), n, min(stated, 1.0)) / n
        between = (float(low), float(high)) if single else None
        yield CalibrationBin(answers=n, confidence=stated, right=float(right[first:end].mean()), between=between)


def _chance(sure: Floats, starts: Indices, error: float) -> tuple[float, float]:
    """The mean error of a model whose confidences (N,), in order, are true; and how often it reaches an error."""
    generator = np.random.default_rng(0)
    errors = np.array(
        [
            np.abs(np.add.reduceat(sure - (generator.random(len(sure)) < sure), starts)).sum() / len(sure)
            for _ in range(DRAWS)
        ]
    )
    return float(errors.mean()), float((1 + (errors >= error - 1e-12).sum()) / (1 + DRAWS))


def concept_calibration(
    stored: StoredPredictions, concepts: ConceptSet, bootstrap: Bootstrap | None = None
) -> list[Calibration]:
    """Of all answers about concepts together, then of each group or yes/no concept; none for a method without.

    Args:
        stored: Predictions of N images.
        concepts: The vocabulary.
        bootstrap: Over the images, for the interval of all answers together; none by default.
    """
    if not stored.concept_logits.shape[1]:
        return []
    asked: dict[str, tuple[Floats, Floats]] = {}
    for scored in group_scores(stored.concept_logits, stored.concepts, concepts):
        name = scored.group.name if scored.group.kind == "exclusive" else concepts.names[scored.columns[0]]
        hit = np.where(scored.known, scored.predicted == scored.truth, np.nan)
        asked[name] = np.asarray(scored.probabilities.max(1, initial=0.0)), hit
    every = [np.concatenate(columns) for columns in zip(*asked.values(), strict=True)]
    images = np.tile(np.arange(len(stored.ids)), len(asked))
    together = calibration(ALL, *every, images=images, bootstrap=bootstrap)
    found = [together, *(calibration(name, *columns) for name, columns in asked.items())]
    return [each for each in found if each.answers]
