"""Calibration: bins by hand, the error that they sum to, what chance allows, and concepts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.data.dataset import Task
from conceptlens.evaluation.calibration.reliability import ALL, calibration, class_calibration, concept_calibration
from conceptlens.evaluation.classification.classification import class_metrics
from conceptlens.evaluation.concepts.concepts import concept_metrics
from conceptlens.nn.heads.probabilities import class_probabilities
from conceptlens.runs.predictions import StoredPredictions

CONCEPTS = ConceptSet.from_yaml(
    """
classes: [one, two]
groups:
  shape: {values: [round, square]}
  marks: {kind: independent, values: [dots, stripes]}
"""
)


def test_bins_by_hand() -> None:
    found = calibration("class", np.array([0.9, 0.6, 0.8, 0.7]), np.array([1.0, 0, 1, np.nan]), bins=2)
    assert found.answers == 3
    assert [found.confidence, found.right] == pytest.approx([2.3 / 3, 2 / 3])
    first, second = found.points  # 0.6 and 0.8, then 0.9
    assert [first.answers, first.confidence, first.right] == pytest.approx([2, 0.7, 0.5])
    assert [second.answers, second.confidence, second.right] == pytest.approx([1, 0.9, 1])
    assert first.between == tuple(binom.ppf((0.025, 0.975), 2, 0.7) / 2)
    assert found.error == pytest.approx((0.6 - 0.2 - 0.1) / 3)  # bins of equal width: all three lie above one half


def test_the_error_is_that_of_the_metrics() -> None:
    """A report reads `metrics.json`, the trust view reads this: both give one number."""
    draw = np.random.default_rng(0)
    truth = draw.integers(-1, 2, (103, 4)).astype(np.int8)
    truth[:, 1] = np.where(truth[:, 0] < 0, UNKNOWN, 1 - truth[:, 0])  # one value of an exclusive group holds
    truth[:, 0] = np.where(truth[:, 1] < 0, UNKNOWN, 1 - truth[:, 1])
    logits = draw.normal(0, 2, (103, 4)).astype(np.float32)
    scores = draw.normal(0, 2, (103, 2)).astype(np.float32)
    names = tuple(map(str, range(103)))
    tasks: list[tuple[Task, Any]] = [
        ("single", draw.integers(-1, 2, 103)),
        ("multilabel", draw.integers(-1, 2, (103, 2))),
    ]
    for task, labels in tasks:
        stored = StoredPredictions(names, names, CONCEPTS.classes, task, scores, logits, labels, truth, (0.5,) * 2)
        classes = class_metrics(class_probabilities(scores, task), labels, task=task)
        assert class_calibration(stored).error == pytest.approx(classes["ece"])
        concepts = concept_metrics(logits, truth, CONCEPTS)
        assert concept_calibration(stored, CONCEPTS)[0].error == pytest.approx(concepts["ece"])


def test_fewer_answers_than_bins_and_none() -> None:
    few = calibration("class", np.array([0.5, 0.9, 0.7]), np.array([0.0, 1, 1]))
    assert [each.answers for each in few.points] == [1, 1, 1]
    none = calibration("class", np.array([0.5]), np.array([np.nan]))
    assert (none.answers, none.error, none.points) == (0, None, [])


def test_calibrated_models_are_seldom_reported_and_an_overconfident_one_is() -> None:
    draw = np.random.default_rng(0)
    reported, outside, bins = [], 0, 0
    for _ in range(60):
        sure = draw.uniform(0.4, 1, 300)
        found = calibration("class", sure, (draw.random(300) < sure).astype(float))
        reported.append((found.p or 0) <= 0.05)
        outside += sum(not _inside(each) for each in found.points)
        bins += len(found.points)
    assert np.mean(reported) <= 0.1
    assert outside <= 0.06 * bins
    sure = draw.uniform(0.4, 1, 3000)
    boaster = calibration("class", sure, (draw.random(3000) < sure - 0.15).astype(float))
    assert boaster.p == pytest.approx(1 / 201)
    assert sum(not _inside(each) for each in boaster.points) >= 12
    assert boaster.error is not None
    assert boaster.error > 3 * (boaster.by_chance or 1)


def _inside(point: object) -> bool:
    low, high = point.between  # type: ignore[attr-defined]
    return bool(low <= point.right <= high)  # type: ignore[attr-defined]


def test_concepts_together_and_each() -> None:
    logits = np.array([[2, 0, 3, 0], [0, 1, 0, 0]], dtype=np.float32)
    truth = np.array([[1, 0, 0, UNKNOWN], [1, 0, 0, UNKNOWN]], dtype=np.int8)
    scores, labels = np.zeros((2, 2), dtype=np.float32), np.zeros(2, dtype=np.int64)
    names = ("a", "b")
    stored = StoredPredictions(names, names, CONCEPTS.classes, "single", scores, logits, labels, truth, (0.5,) * 2)
    every, shape, dots = concept_calibration(stored, CONCEPTS)  # nobody knows of stripes
    assert [every.question, shape.question, dots.question] == [ALL, "shape", "marks: dots"]
    sure = [np.exp(2) / (np.exp(2) + 1), np.e / (np.e + 1), np.exp(3) / (np.exp(3) + 1), 0.5]
    assert shape.confidence == pytest.approx(np.mean(sure[:2]))
    assert shape.right == 0.5
    assert dots.right == 0.5  # said to be there, and at 0 not
    assert every.answers == 4
    assert every.confidence == pytest.approx(np.mean(sure))
    assert concept_calibration(replace(stored, concept_logits=logits[:, :0], concepts=truth[:, :0]), CONCEPTS) == []
