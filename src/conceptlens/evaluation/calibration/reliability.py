"""Reliability diagrams, the calibration error, and the error that a calibrated model would have.

The error is that of `metrics.json`, so that a report and the trust view give one number: bins of equal width, and for
all concepts together the mean over their groups. For the diagram, answers are put into bins of equally many, in order
of confidence (A. Niculescu-Mizil, R. Caruana: Predicting good probabilities with supervised learning, 2005). Beside the
share that is right stands the range in which it would lie if the confidences were true, so that few images are not
overinterpreted (J. Bröcker, L. Smith: Increasing the reliability of reliability diagrams, 2007).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from pydantic import Field
from scipy.stats import binom

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.documents import Part
from conceptlens.evaluation.calibration.ece import width_bins
from conceptlens.evaluation.concepts.groups import group_scores
from conceptlens.nn.heads.probabilities import class_probabilities
from conceptlens.runs.predictions import StoredPredictions
from conceptlens.stats.bootstrap import Statistic
from conceptlens.stats.estimates import Bootstrap
from conceptlens.stats.weighted import ratio

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
    between: tuple[float, float] | None  # where 95 of 100 calibrated models would have it


class Calibration(Part):
    """Of one question: the class that is said, or the value of a concept."""

    question: str = "class"
    answers: int = 0
    confidence: float | None = None  # mean
    right: float | None = None  # share
    error: float | None  # expected calibration error, bins of equal width
    by_chance: float | None  # of a perfectly calibrated model with these confidences
    p: float | None = None  # that such a model's error is as large
    interval: tuple[float, float] | None = None  # of the error, over images; None: not measured
    bins: int
    points: list[CalibrationBin] = Field(default_factory=list)


@dataclass(frozen=True)
class _Cells:
    """Where answers count in the error: Σ over parts of share / answers · Σ over bins |Σ gaps|.

    Attributes:
        cell: (N,) part · bins + bin of each answer.
        part: (N,) the question of each answer.
        share: (P,) how much each question counts; they add to 1.
        bins: How many.
    """

    cell: Indices
    part: Indices
    share: Floats
    bins: int

    def error(self, gaps: Floats) -> float:
        """The error of gaps (N,): confidence less outcome."""
        sums = np.bincount(self.cell, gaps, minlength=len(self.share) * self.bins).reshape(-1, self.bins)
        return float((np.abs(sums).sum(1) * self.share / np.bincount(self.part, minlength=len(self.share))).sum())

    def statistic(self, gaps: Floats, images: Indices, count: int) -> Statistic:
        """The error as a function of image weights (R, N); bins stay as they are, an image brings all its answers."""
        parts: list[tuple[Floats, Floats]] = []
        for place in range(len(self.share)):
            own = self.part == place
            sums = np.zeros((count, self.bins))
            np.add.at(sums, (images[own], self.cell[own] % self.bins), gaps[own])
            parts.append((sums, np.bincount(images[own], minlength=count).astype(np.float64)))

        def error(weights: Floats) -> Floats:
            errors = np.stack([ratio(np.abs(weights @ sums).sum(1), weights @ answers) for sums, answers in parts])
            counted = ~np.isnan(errors)  # a question without an answer among the drawn images does not count
            total = np.where(counted, errors * self.share[:, None], 0.0).sum(0)
            return ratio(total, (counted * self.share[:, None]).sum(0))

        return error


def calibration(
    question: str,
    confidence: Floats,
    hit: Floats,
    *,
    bins: int = BINS,
    images: Indices | None = None,
    parts: Indices | None = None,
    shares: Floats | None = None,
    bootstrap: Bootstrap | None = None,
) -> Calibration:
    """The calibration of answers to one question, or to several together.

    Args:
        question: Its name.
        confidence: (N,) stated probabilities.
        hit: (N,) 1 right, 0 wrong, NaN unknown.
        bins: How many, at most.
        images: (N,) the image that each answer is about; by default each is about its own.
        parts: (N,) which of P questions each answer is to, each with an answer that is known; one by default.
        shares: (P,) how much the error of each question counts in the mean.
        bootstrap: How the error's interval is made; none by default.
    """
    known = ~np.isnan(hit)
    if not known.any():
        return Calibration(question=question, error=None, by_chance=None, bins=bins)
    order = np.argsort(confidence[known], kind="stable")
    sure, right = confidence[known][order], hit[known][order]
    part = np.zeros(len(sure), np.int64) if parts is None else parts[known][order]
    cells = _Cells(part * bins + width_bins(sure, bins), part, np.ones(1) if shares is None else shares, bins)
    error = cells.error(sure - right)
    starts = np.unique(-(-np.arange(bins) * len(sure) // bins))  # ⌈bin · N / bins⌉, the first answer of each bin
    starts = starts[starts < len(sure)]  # with fewer answers than bins, some bins are empty
    by_chance, p = _chance(sure, cells, error)
    interval = None
    if bootstrap is not None:
        about = (np.arange(len(hit)) if images is None else images)[known][order]
        drawn = bootstrap.of({"error": cells.statistic(sure - right, about, len(bootstrap.units))})["error"].interval
        # Resampling adds noise to every bin and so raises the error: the lower end may lie above the error itself.
        interval = drawn and (min(drawn[0], error), drawn[1])
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
        points=list(_points(sure, right, starts)),
    )


def _points(sure: Floats, right: Floats, starts: Indices) -> Iterator[CalibrationBin]:
    for first, end in zip(starts.tolist(), [*starts[1:].tolist(), len(sure)], strict=True):
        n, stated = end - first, float(sure[first:end].mean())
        # A binomial of the mean spreads a little more than draws with a probability each.
        low, high = binom.ppf((0.025, 0.975), n, min(stated, 1.0)) / n
        between = (float(low), float(high))
        yield CalibrationBin(answers=n, confidence=stated, right=float(right[first:end].mean()), between=between)


def _chance(sure: Floats, cells: _Cells, error: float) -> tuple[float, float]:
    """The mean error of a model whose confidences (N,) are true; and how often it reaches an error."""
    generator = np.random.default_rng(0)
    errors = np.array([cells.error(sure - (generator.random(len(sure)) < sure)) for _ in range(DRAWS)])
    return float(errors.mean()), float((1 + (errors >= error - 1e-12).sum()) / (1 + DRAWS))


def class_calibration(stored: StoredPredictions, bootstrap: Bootstrap | None = None) -> Calibration:
    """Of the class that is said; of a multi-label task, of the probability of each label whose answer is known."""
    shares, labels = class_probabilities(stored.logits, stored.task), stored.labels
    if stored.task == "multilabel":
        hit = np.where(labels == UNKNOWN, np.nan, labels == 1)
        images = np.repeat(np.arange(len(hit)), hit.shape[1])
        return calibration("class", shares.ravel(), hit.ravel(), images=images, bootstrap=bootstrap)
    hit = np.where(labels >= 0, shares.argmax(1) == labels, np.nan)
    return calibration("class", shares.max(1, initial=0.0), hit, bootstrap=bootstrap)


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
    groups: list[str] = []
    for scored in group_scores(stored.concept_logits, stored.concepts, concepts):
        if not scored.known.any():
            continue
        name = scored.group.name if scored.group.kind == "exclusive" else concepts.names[scored.columns[0]]
        hit = np.where(scored.known, scored.predicted == scored.truth, np.nan)
        asked[name] = np.asarray(scored.probabilities.max(1, initial=0.0)), hit
        groups.append(scored.group.name)
    if not asked:
        return []
    questions = Counter(groups)  # every group counts the same, whatever the number of its questions
    together = calibration(
        ALL,
        *(np.concatenate(columns) for columns in zip(*asked.values(), strict=True)),
        images=np.tile(np.arange(len(stored.ids)), len(asked)),
        parts=np.repeat(np.arange(len(asked)), len(stored.ids)),
        shares=np.array([1 / (len(questions) * questions[group]) for group in groups]),
        bootstrap=bootstrap,
    )
    return [together, *(calibration(name, *columns) for name, columns in asked.items())]
