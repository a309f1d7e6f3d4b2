"""Which of a run's own images are worth a look."""

import numpy as np

from conceptlens.runs.image_choice import order

SHARES = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.45, 0.55], [0.3, 0.7]])
LABELS = np.array([0, 0, 0, 0, -1])


def test_by_kind() -> None:
    assert order(SHARES, LABELS, "single", [], "right").tolist() == [0, 1]
    assert order(SHARES, LABELS, "single", [], "wrong").tolist() == [2, 3]
    assert order(SHARES, LABELS, "single", [], "uncertain").tolist() == [3, 1, 4, 2, 0]


def test_several_classes_at_once() -> None:
    labels = np.array([[1, 0], [1, 1], [0, 0], [-1, -1], [1, -1]])
    assert order(SHARES, labels, "multilabel", [0.5, 0.5], "right").tolist() == [0]
    assert order(SHARES, labels, "multilabel", [0.5, 0.5], "wrong").tolist() == [2, 4, 1]
