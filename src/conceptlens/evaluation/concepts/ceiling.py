"""How well the class follows from the *true* concepts: the most a model can gain by correcting every concept."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression

from conceptlens.concepts import UNKNOWN
from conceptlens.evaluation.classification.balanced import balanced_accuracy, mean_of


def label_to_class_ceiling(
    train_concepts: npt.NDArray[np.int8],
    train_labels: npt.NDArray[np.int64],
    test_concepts: npt.NDArray[np.int8],
    test_labels: npt.NDArray[np.int64],
) -> dict[str, Any]:
    """Test accuracy of a logistic regression from true concept labels to classes.

    A model that is more accurate than this knows something of the class that the concepts do not say.

    Args:
        train_concepts: (N, K) of 0, 1, UNKNOWN; an unknown label takes the concept's mean in training, 0.5 if never
            known.
        train_labels: (N,), or (N, C) of 0, 1 for a multi-label task; images with a negative label are left out.
        test_concepts: (M, K).
        test_labels: (M,) or (M, C).

    Returns:
        `accuracy` and `balanced_accuracy`; for a multi-label task their means over labels. None where it cannot be
        computed.
    """
    if not train_concepts.shape[1]:
        return {"accuracy": None, "balanced_accuracy": None}
    known = train_concepts != UNKNOWN
    seen = known.sum(0)
    mean = np.where(seen > 0, np.where(known, train_concepts, 0).sum(0) / np.maximum(seen, 1), 0.5)
    train, test = (np.where(marks == UNKNOWN, mean, marks) for marks in (train_concepts, test_concepts))
    if train_labels.ndim == 1:
        train_labels, test_labels = train_labels[:, None], test_labels[:, None]
    scores = [_fit_and_score(train, train_labels[:, c], test, test_labels[:, c]) for c in range(train_labels.shape[1])]
    return {
        "accuracy": mean_of([score[0] for score in scores]),
        "balanced_accuracy": mean_of([score[1] for score in scores]),
    }


def _fit_and_score(
    train: npt.NDArray[np.float64],
    train_labels: npt.NDArray[np.int64],
    test: npt.NDArray[np.float64],
    test_labels: npt.NDArray[np.int64],
) -> tuple[float | None, float | None]:
    learned, asked = train_labels >= 0, test_labels >= 0
    if len(np.unique(train_labels[learned])) < 2 or not asked.any():
        return None, None
    model = LogisticRegression(max_iter=2000).fit(train[learned], train_labels[learned])
    predicted, truth = model.predict(test[asked]), test_labels[asked]
    classes = int(max(predicted.max(), truth.max())) + 1
    return float((predicted == truth).mean()), balanced_accuracy(predicted, truth, classes)
