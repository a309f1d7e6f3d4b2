"""Concept metrics against scikit-learn group by group, and against what chance and priors give by hand."""

import json

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn import metrics as sk

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.evaluation.calibration.ece import expected_calibration_error
from conceptlens.evaluation.concepts.ceiling import label_to_class_ceiling
from conceptlens.evaluation.concepts.concepts import concept_metrics
from conceptlens.evaluation.concepts.groups import concept_counts, concept_priors, group_scores

CONCEPTS = ConceptSet.from_yaml(
    """
groups:
  shape: {values: [round, oval, odd]}
  size: {values: [big, small]}
  marks: {kind: independent, values: [spots, stripes]}
"""
)
SHAPE, SIZE = slice(0, 3), slice(3, 5)


def some_images(n: int = 240, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits (n, 7), labels (n, 7) with a tenth unknown by group, classes (n,)."""
    rng = np.random.default_rng(seed)
    labels = np.zeros((n, 7), dtype=np.int8)
    labels[np.arange(n), rng.choice(3, n, p=[0.6, 0.3, 0.1])] = 1
    labels[np.arange(n), 3 + rng.choice(2, n)] = 1
    labels[:, 5:] = rng.random((n, 2)) < [0.2, 0.5]
    logits = 1.2 * labels + rng.normal(size=(n, 7))
    for columns in (SHAPE, SIZE, slice(5, 6), slice(6, 7)):
        labels[rng.random(n) < 0.1, columns] = -1
    return logits, labels, rng.integers(3, size=n)


def test_exclusive_group_equals_scikit_learn() -> None:
    logits, labels, _ = some_images()
    row = concept_metrics(logits, labels, CONCEPTS)["per_group"][0]
    known = labels[:, 0] >= 0
    truth, scores = labels[known, SHAPE].argmax(1), logits[known, SHAPE]
    predicted, probabilities = scores.argmax(1), softmax(scores, axis=1)
    assert (row["group"], row["kind"], row["n"]) == ("shape", "exclusive", known.sum())
    assert row["accuracy"] == pytest.approx(sk.accuracy_score(truth, predicted))
    assert row["balanced_accuracy"] == pytest.approx(sk.balanced_accuracy_score(truth, predicted))
    assert row["auc"] == pytest.approx(sk.roc_auc_score(truth, probabilities, multi_class="ovr"))
    assert row["ece"] == pytest.approx(expected_calibration_error(probabilities.max(1), predicted == truth))
    assert row["chance"] == pytest.approx(1 / 3)
    assert row["at_chance"] is False


def test_independent_group_is_the_mean_of_its_yes_no_questions() -> None:
    logits, labels, _ = some_images()
    row = concept_metrics(logits, labels, CONCEPTS)["per_group"][2]
    accuracy, balanced, auc = [], [], []
    error: list[float] = []
    for column in (5, 6):
        known = labels[:, column] >= 0
        truth, scores = labels[known, column], logits[known, column]
        accuracy.append(sk.accuracy_score(truth, scores > 0))
        balanced.append(sk.balanced_accuracy_score(truth, scores > 0))
        auc.append(sk.roc_auc_score(truth, scores))
        confident = np.maximum(expit(scores), 1 - expit(scores))
        error.append(expected_calibration_error(confident, (scores > 0) == truth) or 0.0)
    assert row["n"] == (labels[:, 5:] >= 0).any(1).sum()
    assert row["accuracy"] == pytest.approx(np.mean(accuracy))
    assert row["balanced_accuracy"] == pytest.approx(np.mean(balanced))
    assert row["auc"] == pytest.approx(np.mean(auc))
    assert row["ece"] == pytest.approx(np.mean(error))
    assert row["chance"] == 0.5


def test_means_count_every_group_once() -> None:
    logits, labels, classes = some_images()
    found = concept_metrics(logits, labels, CONCEPTS, class_labels=classes, priors=concept_priors(labels, CONCEPTS))
    for name in (
        "accuracy",
        "balanced_accuracy",
        "balanced_accuracy_prior_corrected",
        "auc",
        "auc_within_class",
        "ece",
    ):
        assert found[name] == pytest.approx(np.mean([row[name] for row in found["per_group"]]))
    assert [row["concept"] for row in found["per_concept"]] == CONCEPTS.names
    json.dumps(found, allow_nan=False)


def test_pooled_variant_is_one_list_of_positions() -> None:
    logits, labels, _ = some_images()
    predicted: list[int] = []
    truth: list[int] = []
    for columns in (SHAPE, SIZE):
        known = labels[:, columns.start] >= 0
        predicted += logits[known, columns].argmax(1).tolist()
        truth += labels[known, columns].argmax(1).tolist()
    for column in (5, 6):
        known = labels[:, column] >= 0
        predicted += (logits[known, column] > 0).astype(int).tolist()
        truth += labels[known, column].tolist()
    found = concept_metrics(logits, labels, CONCEPTS)["balanced_accuracy_pooled"]
    assert found == pytest.approx(sk.balanced_accuracy_score(truth, predicted))


def test_prior_correction_by_hand() -> None:
    concepts = ConceptSet.from_yaml("groups:\n  a: {values: [x, y]}\n  b: {kind: independent, values: [z]}\n")
    # A value seen in 90 % of training must beat the other by ln 9 = 2.197 to be chosen.
    logits = np.array([[2.1, 0.0, -2.1], [2.3, 0.0, -2.3]])
    labels = np.array([[0, 1, 1], [1, 0, 0]], dtype=np.int8)
    found = concept_metrics(logits, labels, concepts, priors=[0.9, 0.1, 0.1])
    assert [row["balanced_accuracy"] for row in found["per_group"]] == [0.5, 0.5]
    assert [row["balanced_accuracy_prior_corrected"] for row in found["per_group"]] == [1, 1]
    assert concept_metrics(logits, labels, concepts)["balanced_accuracy_prior_corrected"] is None


def test_priors_count_known_labels_and_spare_the_unseen() -> None:
    labels = np.array([[1, 0, 0, 0, 1, 0, -1], [1, 0, 0, -1, -1, 1, -1], [-1, -1, -1, 0, 1, 1, -1]], dtype=np.int8)
    expected = [2.5 / 3.5, 0.5 / 3.5, 0.5 / 3.5, 0.5 / 3, 2.5 / 3, 2.5 / 4, 0.5]
    assert concept_priors(labels, CONCEPTS) == pytest.approx(expected)


def test_knowing_only_the_class_is_no_use_within_class() -> None:
    rng = np.random.default_rng(3)
    classes = rng.integers(2, size=600)
    value = np.where(rng.random(600) < 0.8, classes, 1 - classes)
    concepts = ConceptSet.from_yaml("groups: {a: {values: [x, y]}}")
    labels = np.stack([value == 0, value == 1], axis=1).astype(np.int8)
    logits = np.stack([classes == 0, classes == 1], axis=1).astype(float)
    found = concept_metrics(logits, labels, concepts, class_labels=classes)
    assert found["auc"] > 0.75
    assert found["auc_within_class"] == 0.5
    unlabeled = np.where(np.arange(600) % 2 == 0, -1, classes)
    kept = unlabeled >= 0
    sharp = logits + 0.5 * labels
    assert (
        concept_metrics(sharp, labels, concepts, class_labels=unlabeled)["auc_within_class"]
        == concept_metrics(sharp[kept], labels[kept], concepts, class_labels=classes[kept])["auc_within_class"]
    )
    several = np.stack([classes, classes * 0], axis=1)
    assert concept_metrics(logits, labels, concepts, class_labels=several)["auc_within_class"] == 0.5
    assert concept_metrics(logits, labels, concepts)["auc_within_class"] is None


def test_auc_does_not_saturate() -> None:
    concepts = ConceptSet.from_yaml("groups: {a: {values: [x, y]}}")
    # Both probabilities of x round to 1, but their order is right.
    logits = np.array([[60.0, 0.0], [50.0, 0.0]])
    assert concept_metrics(logits, np.array([[1, 0], [0, 1]], dtype=np.int8), concepts)["auc"] == 1


def test_constant_and_image_free_predictors_are_at_chance() -> None:
    logits, labels, _ = some_images(2000, seed=5)
    constant = np.tile([3.0, 0.0, 0.0, 1.0, 0.0, -1.0, -1.0], (2000, 1))
    found = concept_metrics(constant, labels, CONCEPTS)
    assert found["groups_at_chance"] == {"count": 3, "of": 3, "names": ["shape", "size", "marks"]}
    assert found["balanced_accuracy"] == pytest.approx((1 / 3 + 1 / 2 + 1 / 2) / 3)
    half = logits.copy()
    half[:, SIZE] = np.random.default_rng(0).normal(size=(2000, 2))
    assert concept_metrics(half, labels, CONCEPTS)["groups_at_chance"]["names"] == ["size"]


def test_chance_is_called_better_in_about_one_case_in_forty() -> None:
    rng = np.random.default_rng(1)
    concepts = ConceptSet.from_yaml("groups: {a: {values: [x, y, z]}}")
    better = 0
    for _ in range(400):
        truth = rng.choice(3, 150, p=[0.7, 0.2, 0.1])
        labels = np.eye(3, dtype=np.int8)[truth]
        logits = np.eye(3)[rng.choice(3, 150, p=[0.5, 0.3, 0.2])]
        better += concept_metrics(logits, labels, concepts)["groups_at_chance"]["count"] == 0
    assert 1 <= better <= 24  # 2.3 % of 400 is 9


def test_one_value_only_cannot_be_judged() -> None:
    logits, labels, _ = some_images(50)
    labels[:, SIZE] = [1, 0]
    labels[:, 5:] = -1
    found = concept_metrics(logits, labels, CONCEPTS)
    size, marks = found["per_group"][1:]
    assert size["accuracy"] is not None
    assert size["balanced_accuracy"] is size["auc"] is size["chance"] is size["at_chance"] is None
    assert marks["n"] == 0
    assert marks["accuracy"] is marks["ece"] is None
    assert found["balanced_accuracy"] == found["per_group"][0]["balanced_accuracy"]
    nothing = concept_metrics(np.zeros((0, 7)), np.zeros((0, 7), dtype=np.int8), CONCEPTS, class_labels=[])
    assert nothing["accuracy"] is nothing["balanced_accuracy_pooled"] is None
    json.dumps(nothing, allow_nan=False)


def test_an_exclusive_row_without_exactly_one_value_is_unknown() -> None:
    labels = np.array([[0, 0, 0], [1, 1, 0], [-1, 1, -1], [0, 0, 1]], dtype=np.int8)
    full = np.c_[labels, np.full((4, 4), -1)]
    assert group_scores(np.zeros((4, 7)), full, CONCEPTS)[0].truth.tolist() == [-1, -1, 1, 2]


def test_bad_input_is_explained() -> None:
    with pytest.raises(UserError, match=r"shape \(N, 7\)"):
        concept_metrics(np.zeros((2, 6)), np.zeros((2, 6), dtype=np.int8), CONCEPTS)
    with pytest.raises(UserError, match="concept scores of 2 of 2 images are not finite"):
        concept_metrics(np.full((2, 7), np.inf), np.zeros((2, 7), dtype=np.int8), CONCEPTS)


def test_ceiling_of_concepts_that_decide_and_of_concepts_that_do_not() -> None:
    rng = np.random.default_rng(0)
    concepts = rng.integers(2, size=(400, 3)).astype(np.int8)
    decided = (concepts[:, 0] + concepts[:, 1] > 0).astype(np.int64)
    train, test = slice(0, 300), slice(300, 400)
    found = label_to_class_ceiling(concepts[train], decided[train], concepts[test], decided[test])
    assert found == {"accuracy": 1.0, "balanced_accuracy": 1.0}
    unrelated = np.repeat([0, 0, 0, 1], 100)[rng.permutation(400)]
    found = label_to_class_ceiling(concepts[train], unrelated[train], concepts[test], unrelated[test])
    assert found["accuracy"] == (unrelated[test] == 0).mean()
    assert found["balanced_accuracy"] == 0.5


def test_ceiling_with_unknown_concepts_and_labels() -> None:
    concepts = np.array([[1, 0, -1], [0, 1, -1]] * 20, dtype=np.int8)
    labels = np.array([0, 1] * 20)
    blurred = concepts.copy()
    blurred[0] = -1
    assert label_to_class_ceiling(blurred, labels, concepts, labels)["accuracy"] == 1
    hidden = np.where(np.arange(40) < 10, -1, labels)
    assert label_to_class_ceiling(concepts, hidden, concepts, hidden)["accuracy"] == 1
    several = np.stack([labels, np.zeros_like(labels)], axis=1)  # the second label never varies
    assert label_to_class_ceiling(concepts, several, concepts, several)["balanced_accuracy"] == 1
    nothing = label_to_class_ceiling(concepts, labels * 0, concepts, labels)
    assert nothing == {"accuracy": None, "balanced_accuracy": None}


def test_counts_tell_values_that_nobody_has_from_those_that_nobody_labeled() -> None:
    labels = np.array([[1, 0, UNKNOWN], [1, UNKNOWN, UNKNOWN]], dtype=np.int8)
    assert concept_counts(labels) == [2, 0, UNKNOWN]
    assert concept_counts(labels[:0]) == [UNKNOWN] * 3
