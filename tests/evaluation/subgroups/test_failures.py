"""Subgroup performance from stored predictions: sentences name what was planted and nothing else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.evaluation.subgroups.failures import Failures, all_sets, measure_failures, significantly_worse
from conceptlens.evaluation.subgroups.outcomes import outcomes
from conceptlens.runs.predictions import StoredPredictions

CONCEPTS = ConceptSet.from_yaml(
    """
classes: [one, two, three]
groups:
  shape: {values: [round, square]}
  marks: {kind: independent, values: [dots, stripes]}
"""
)


def stored(n: int, seed: int, failing: np.ndarray | None = None) -> StoredPredictions:
    """Scores that are right nine times in ten, and in a failing group three times in five."""
    draw = np.random.default_rng([seed, 1])
    labels = draw.integers(3, size=n)
    shape = draw.integers(2, size=n)
    truth = np.concatenate([np.eye(2)[shape], draw.integers(2, size=(n, 2))], axis=1).astype(np.int8)
    right = draw.random(n) < (0.9 if failing is None else np.where(failing, 0.6, 0.9))
    said = np.where(right, labels, (labels + 1) % 3)
    scores = 4.0 * truth - 2 + draw.normal(0, 1, truth.shape)
    names = tuple(f"{seed}-{place}.png" for place in range(n))
    return StoredPredictions(
        names,
        names,
        CONCEPTS.classes,
        "single",
        (2.5 * np.eye(3)[said] + draw.normal(0, 0.3, (n, 3))).astype(np.float32),
        scores.astype(np.float32),
        labels,
        truth,
        (0.5,) * 3,
    )


def measured(judged: StoredPredictions, metadata: dict[str, list[str]]) -> Failures:
    return measure_failures(judged, stored(300, 9), CONCEPTS, metadata, resamples=100)


def test_outcomes_by_hand() -> None:
    made = replace(
        stored(3, 0),
        logits=np.array([[2, 0, 0], [0, 2, 0], [0, 0, 2]], dtype=np.float32),
        labels=np.array([0, 0, -1]),
        concept_logits=np.array([[1, -1, 3, -3], [1, -1, 3, -3], [0, 1, 0, 0]], dtype=np.float32),
        concepts=np.array([[1, 0, 1, 1], [0, 1, UNKNOWN, 0], [UNKNOWN] * 4], dtype=np.int8),
    )
    found = outcomes(made, CONCEPTS)
    np.testing.assert_allclose(found.hit, [1, 0, np.nan])
    np.testing.assert_allclose(found.concept_hit, [(1 + 0.5) / 2, (0 + 1) / 2, np.nan])  # a mean over groups
    sure = np.exp(2) / (np.exp(2) + 2)
    np.testing.assert_allclose(found.confidence, [sure] * 3)
    np.testing.assert_allclose(found.columns["class overconfidence"], [sure - 1, sure, np.nan])


def test_several_labels_are_decided_at_the_thresholds_of_the_run() -> None:
    shares = np.array([[0.3, 0.6, 0.9], [0.1, 0.4, 0.9]])
    made = replace(
        stored(2, 0),
        task="multilabel",
        logits=np.log(shares / (1 - shares)).astype(np.float32),
        labels=np.array([[1, 0, 1], [0, 0, -1]]),
        thresholds=(0.2, 0.7, 0.5),
    )
    found = outcomes(made, CONCEPTS)
    np.testing.assert_allclose(found.hit, [1, 1])
    np.testing.assert_allclose(found.confidence, [(0.3 + 0.4 + 0.9) / 3, (0.9 + 0.6) / 2], rtol=1e-6)


def test_a_worse_subgroup_is_named(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    age, sex = draw.integers(20, 90, 900), draw.choice(["f", "m"], 900)
    judged = stored(900, 1, failing=age > 72)
    found = measured(judged, {"age": [str(each) for each in age], "sex": sex.tolist()})
    names = {(group.column, group.group) for group, _ in significantly_worse(found)}
    assert {column for column, _ in names} == {"age"}
    assert {group for _, group in names} == {f"above {np.quantile(age, 0.75, method='nearest'):g}"}
    sentence = found.findings[0]
    assert "Class accuracy" in sentence
    assert "lower where age is 'above" in sentence
    assert "The classes of the subgroup do not explain it" in sentence
    assert not any("sex" in line for line in found.findings)
    found.write(tmp_path / "failures.json")
    assert Failures.read(tmp_path / "failures.json") == found


def test_equal_subgroups_are_not_named_and_power_is_reported() -> None:
    draw = np.random.default_rng(2)
    found = measured(stored(600, 3), {"sex": draw.choice(["f", "m"], 600).tolist()})
    assert significantly_worse(found) == []
    assert "No subgroup of sex is significantly worse" in found.findings[0]
    assert "may be missed" in found.findings[0]


def test_sets_of_classes_and_concepts() -> None:
    found = all_sets(stored(400, 4), stored(400, 5), CONCEPTS, alpha=0.2, resamples=20)
    assert [each.question for each in found] == [
        "class",
        "class, each by itself",
        "shape",
        "marks: dots",
        "marks: stripes",
    ]
    for each in found:
        assert each.coverage.value == pytest.approx(0.8, abs=0.08)
    assert found[2].answers[0].answer == "round"


def test_several_labels_at_once() -> None:
    one, two = stored(200, 6), stored(200, 7)
    several = [replace(each, task="multilabel", labels=np.eye(3, dtype=np.int64)[each.labels]) for each in (one, two)]
    found = measure_failures(several[0], several[1], CONCEPTS, {"site": ["a", "b"] * 100}, resamples=20)
    assert [each.question for each in found.sets[:3]] == ["class: one", "class: two", "class: three"]
    assert found.selective is not None


def test_without_concepts_or_metadata() -> None:
    nothing = np.zeros((300, 0))
    judged = replace(stored(300, 8), concept_logits=nothing.astype(np.float32), concepts=nothing.astype(np.int8))
    empty = ConceptSet.from_yaml("classes: [one, two, three]\ngroups: {a: {values: [x, y]}}")
    found = measure_failures(judged, judged, empty, {}, resamples=20)
    assert found.groups == []
    assert [each.question for each in found.sets] == ["class", "class, each by itself"]
    assert any("no metadata column" in note for note in found.notes)
    with pytest.raises(UserError, match="--alpha"):
        measure_failures(judged, judged, empty, {}, alpha=1.5)


def test_calibration_beside_what_chance_gives() -> None:
    draw = np.random.default_rng(1)
    n = 2000
    chance = draw.dirichlet((1, 1, 1), n)
    labels = np.array([draw.choice(3, p=row) for row in chance])
    names = tuple(str(place) for place in range(n))
    judged = replace(stored(n, 10), ids=names, units=names, logits=np.log(chance).astype(np.float32), labels=labels)
    found = measured(judged, {})
    assert found.calibration.error is not None
    assert found.calibration.by_chance is not None
    assert found.calibration.error == pytest.approx(found.calibration.by_chance, abs=0.015)
    sure = measured(replace(judged, logits=(3 * np.log(chance)).astype(np.float32)), {})
    assert sure.calibration.error > 3 * (sure.calibration.by_chance or 0)
