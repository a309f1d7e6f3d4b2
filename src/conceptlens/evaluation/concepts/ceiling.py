"""How well the class follows from the *true* concepts: the most a model can gain by correcting every concept.

A report, the corrections and the leakage of a run all read this ceiling: `leakage.probe.ceiling_answers`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from conceptlens.evaluation.classification.balanced import balanced_accuracy, mean_of
from conceptlens.evaluation.leakage.probe import ceiling_answers
from conceptlens.runs.readout import TrainingLabels, split_targets
from conceptlens.stats.folds import assign_folds


def label_to_class_ceiling(
    train_concepts: npt.NDArray[np.int8],
    train_labels: npt.NDArray[np.int64],
    test_concepts: npt.NDArray[np.int8],
    test_labels: npt.NDArray[np.int64],
    units: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Test accuracy of a logistic regression from true concept labels to classes.

    A model that is more accurate than this knows something of the class that the concepts do not say.

    Args:
        train_concepts: (N, K) of 0, 1, UNKNOWN.
        train_labels: (N,), or (N, C) of 0, 1 for a multi-label task; images with a negative label are left out.
        test_concepts: (M, K).
        test_labels: (M,) or (M, C).
        units: (M,) what must not be divided between folds, such as the patient; each image alone if not given.

    Returns:
        `accuracy` and `balanced_accuracy`; for a multi-label task their means over labels. None where it cannot be
        computed.
    """
    if not train_concepts.shape[1]:
        return {"accuracy": None, "balanced_accuracy": None}
    training, targets = TrainingLabels(train_concepts, train_labels), split_targets(test_labels)
    fold = assign_folds([str(row) for row in range(len(test_concepts))] if units is None else units)
    possible = len(test_concepts) > 0 and len(train_concepts) > 0
    answers = ceiling_answers(test_concepts, targets, fold, training) if possible else targets
    scores = [_score(*of) for of in zip(answers, targets, training.targets, strict=True)]
    return {
        "accuracy": mean_of([score[0] for score in scores]),
        "balanced_accuracy": mean_of([score[1] for score in scores]),
    }


def _score(
    answers: npt.NDArray[np.int64], target: npt.NDArray[np.int64], learned: npt.NDArray[np.int64]
) -> tuple[float | None, float | None]:
    """Nothing where there is only one class to learn, or no image to ask about."""
    asked = target >= 0
    if len(np.unique(learned[learned >= 0])) < 2 or not asked.any():
        return None, None
    said, truth = answers[asked], target[asked]
    classes = int(max(said.max(), truth.max())) + 1
    return float((said == truth).mean()), balanced_accuracy(said, truth, classes)
