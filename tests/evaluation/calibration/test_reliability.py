"""Calibration: bins by hand, the error that they sum to, what chance allows, and concepts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.evaluation.calibration.ece import expected_calibration_error
from conceptlens.evaluation.calibration.reliability import ALL, calibration, concept_calibration
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
    assert found.error == pytest.approx((2 * 0.2 + 0.1) / 3)


def test_the_bins_are_those_of_the_error() -> None:
    draw = np.random.default_rng(0)
    sure = draw.random(103)
    hit = (draw.random(103) < sure**2).astype(float)
    found = calibration("class", sure, hit)
    assert found.error == expected_calibration_error(sure, hit, bins=15, spacing="mass")
    gaps = [each.answers * abs(each.confidence - each.right) for each in found.points]
    assert sum(gaps) / 103 == pytest.approx(found.error)
    assert sum(each.answers for each in found.points) == 103


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


def test_shares_of_several_labels_have_no_chance() -> None:
    found = calibration("class", np.array([0.9, 0.8]), np.array([0.5, 1.0]))
    assert (found.by_chance, found.p) == (None, None)
    assert [each.between for each in found.points] == [None, None]


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
