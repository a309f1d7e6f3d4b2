"""Bootstrap intervals of a run's headline numbers, each from the same statistic as the number it stands beside."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.data.dataset import UNLABELED, Task
from conceptlens.evaluation.concepts.groups import GroupScores, group_scores
from conceptlens.recipes.schema import MetricsConfig
from conceptlens.stats.bootstrap import Statistic, bootstrap_intervals
from conceptlens.stats.weighted import mean_known, weighted_accuracy, weighted_auc, weighted_balanced_accuracy

Floats = npt.NDArray[np.float64]


def metric_intervals(
    class_probs: npt.ArrayLike,
    labels: npt.ArrayLike,
    concept_logits: npt.ArrayLike,
    concept_labels: npt.ArrayLike,
    concepts: ConceptSet,
    groups: Sequence[str] | None,
    config: MetricsConfig,
    *,
    task: Task = "single",
    thresholds: Sequence[float] | None = None,
    seed: int = 0,
) -> dict[str, list[float] | None]:
    """Intervals [low, high] for the accuracies and AUCs of classes and concepts.

    Args:
        class_probs: (N, C) probabilities or logits.
        labels: As for `class_metrics`.
        concept_logits: (N, K); (N, 0) of a method that reads no concepts, which then have no intervals.
        concept_labels: (N, K) of 0, 1, UNKNOWN.
        concepts: The vocabulary.
        groups: The patient or lesion of each image, which are then what is drawn.
        config: Number of resamples and confidence; with 0 resamples the result is empty.
        task: Of the classes.
        thresholds: Of a multi-label task's decisions, as given to `class_metrics`.
        seed: Of the draws.

    Returns:
        `class.accuracy`, `class.balanced_accuracy`, `class.macro_auc`, `concept.accuracy`, `concept.balanced_accuracy`,
        `concept.auc`. None where there is nothing to measure.
    """
    if config.bootstrap == 0:
        return {}
    values, truth = np.asarray(class_probs, dtype=np.float64), np.asarray(labels, dtype=np.int64)
    statistics = class_statistics(values, truth, task, thresholds)
    if np.asarray(concept_logits).shape[1]:
        statistics |= concept_statistics(group_scores(concept_logits, concept_labels, concepts))
    return bootstrap_intervals(
        statistics, len(values), groups, resamples=config.bootstrap, confidence=config.confidence, seed=seed
    )


def class_statistics(
    values: Floats, truth: npt.NDArray[np.int64], task: Task, thresholds: Sequence[float] | None = None
) -> dict[str, Statistic]:
    """The statistics of class probabilities (N, C), as functions of image weights."""
    if task == "multilabel":
        predicted = (values >= np.asarray(0.5 if thresholds is None else thresholds)).astype(np.int64)
        columns = range(values.shape[1])
        known = truth != UNKNOWN

        def each_accuracy(weights: Floats) -> list[Floats]:
            return [weighted_accuracy(predicted[:, c] == truth[:, c], weights, known[:, c]) for c in columns]

        def each_balanced(weights: Floats) -> list[Floats]:
            return [weighted_balanced_accuracy(predicted[:, c], truth[:, c], weights, at_least=2) for c in columns]

        def each_auc(weights: Floats) -> list[Floats]:
            return [weighted_auc(values[:, c], truth[:, c] == 1, weights, known[:, c]) for c in columns]

        return {
            "class.accuracy": lambda weights: _mean(each_accuracy(weights)),
            "class.balanced_accuracy": lambda weights: _mean(each_balanced(weights)),
            "class.macro_auc": lambda weights: _mean(each_auc(weights)),
        }
    chosen, labeled = values.argmax(1), truth != UNLABELED
    return {
        "class.accuracy": lambda weights: weighted_accuracy(chosen == truth, weights, labeled),
        "class.balanced_accuracy": lambda weights: weighted_balanced_accuracy(chosen, truth, weights),
        "class.macro_auc": lambda weights: _mean(
            [weighted_auc(values[:, c], truth == c, weights, labeled) for c in range(values.shape[1])]
        ),
    }


def concept_statistics(asked: list[GroupScores]) -> dict[str, Statistic]:
    """The statistics of concept groups, as functions of image weights; means over groups as in `concept_metrics`."""
    grouped = [list(members) for _, members in groupby(asked, key=lambda scored: scored.group)]

    def accuracy(scored: GroupScores, weights: Floats) -> Floats:
        return weighted_accuracy(scored.predicted == scored.truth, weights, scored.known)

    def balanced(scored: GroupScores, weights: Floats) -> Floats:
        return weighted_balanced_accuracy(scored.predicted, scored.truth, weights, at_least=2)

    def auc(scored: GroupScores, weights: Floats) -> Floats:
        return _mean(
            [weighted_auc(scored.log_odds(a), scored.truth == a, weights, scored.known) for a in scored.answers]
        )

    return {
        "concept.accuracy": lambda weights: _mean([_mean([accuracy(a, weights) for a in group]) for group in grouped]),
        "concept.balanced_accuracy": lambda weights: _mean(
            [_mean([balanced(a, weights) for a in group]) for group in grouped]
        ),
        "concept.auc": lambda weights: _mean([_mean([auc(a, weights) for a in group]) for group in grouped]),
    }


def _mean(columns: list[Floats]) -> Floats:
    """Mean (R,) of several statistics (R,) over those that have a value."""
    return mean_known(np.stack(columns, axis=1))
