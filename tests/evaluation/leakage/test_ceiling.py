"""The ceiling: the class from true concepts, by a probe of the split or one of the training images."""

from dataclasses import replace

import numpy as np

from conceptlens.evaluation.concepts.ceiling import label_to_class_ceiling
from conceptlens.evaluation.leakage.probe import ceiling_hits
from conceptlens.runs.readout import Readout, TrainingLabels
from conceptlens.stats.folds import assign_folds
from tests.evaluation.trust.world import readout

SHAPES = np.array([0, 1, 2] * 4)  # of 12 images; the shape is the class
TRUTH = np.concatenate([np.eye(3)[SHAPES], np.eye(2)[SHAPES % 2], np.zeros((12, 2))], axis=1).astype(np.int8)
BLIND = SHAPES  # folds of one class each: who learns from the others has never seen it
FAIR = np.arange(12) // 6
TAUGHT = TrainingLabels(np.tile(TRUTH, (4, 1)), np.tile(SHAPES, 4))
WRONG = replace(TAUGHT, labels=(TAUGHT.labels + 1) % 3)


def asked(training: TrainingLabels | None, labels: np.ndarray = SHAPES) -> Readout:
    made = readout(np.zeros((12, 7)), TRUTH, labels, np.zeros((3, 7)), np.zeros(3))
    return replace(made, training=lambda: training)


def test_training_images_teach_what_a_small_split_cannot() -> None:
    assert ceiling_hits(asked(None), BLIND).tolist() == [0] * 12
    assert ceiling_hits(replace(asked(None), training=None), BLIND).tolist() == [0] * 12
    assert ceiling_hits(asked(TAUGHT), BLIND).tolist() == [1] * 12


def test_the_split_counts_where_its_training_images_teach_less() -> None:
    assert ceiling_hits(asked(WRONG), FAIR).tolist() == [1] * 12
    assert ceiling_hits(asked(WRONG), BLIND).tolist() == [0] * 12


def test_images_without_a_class_have_no_ceiling() -> None:
    labels = np.where(np.arange(12) < 2, -1, SHAPES)
    found = ceiling_hits(asked(TAUGHT, labels), BLIND)
    assert np.isnan(found[:2]).all()
    assert found[2:].tolist() == [1] * 10


def test_several_labels_at_once_are_asked_one_by_one() -> None:
    several = np.eye(3, dtype=np.int64)
    made = replace(asked(replace(TAUGHT, labels=several[TAUGHT.labels])), labels=several[SHAPES])
    assert ceiling_hits(made, BLIND).tolist() == [1] * 12


def test_the_report_and_the_corrections_have_the_same_ceiling() -> None:
    """Concepts that leave the class open in training and decide it in the split: the split's own probe is better."""
    made = asked(WRONG)
    reported = label_to_class_ceiling(WRONG.concepts, WRONG.labels, made.truth, made.labels, made.units)
    assert reported["accuracy"] == ceiling_hits(made, assign_folds(made.units)).mean() > 0.5
