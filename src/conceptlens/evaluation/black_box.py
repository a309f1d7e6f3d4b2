"""What a black box makes of the same images: a linear classifier on the encoder's image vectors, without concepts."""

import warnings

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conceptlens.evaluation.classification.balanced import balanced_accuracy

Vectors = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


def black_box_reference(
    training: Vectors | None, training_labels: Labels, vectors: Vectors | None, labels: Labels
) -> dict[str, float | None]:
    """`accuracy` and `balanced_accuracy`; None where there is nothing to learn or to ask, or several labels an image.

    Args:
        training: (N, D) vectors of training images.
        training_labels: (N,); negative is unknown.
        vectors: (M, D) of the images to be recognized.
        labels: (M,).
    """
    nothing: dict[str, float | None] = {"accuracy": None, "balanced_accuracy": None}
    if training is None or vectors is None or training_labels.ndim != 1:
        return nothing
    learned, asked = training_labels >= 0, labels >= 0
    if len(np.unique(training_labels[learned])) < 2 or not asked.any() or not np.isfinite(training).all():
        return nothing
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200, C=0.1, class_weight="balanced"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # near enough for a bar
        predicted = model.fit(training[learned], training_labels[learned]).predict(vectors[asked])
    truth = labels[asked]
    classes = int(max(training_labels.max(), truth.max())) + 1
    return {
        "accuracy": float((predicted == truth).mean()),
        "balanced_accuracy": balanced_accuracy(predicted, truth, classes),
    }
