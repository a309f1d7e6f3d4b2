"""What images say of concepts: against naive versions, and on data whose faults are known."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from conceptlens import api
from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.stats.folds import assign_folds
from conceptlens.workflows.authoring.filters.neighbors import chance_disagreement, disagreement, nearest
from conceptlens.workflows.authoring.images.findings import image_findings, redundancy
from conceptlens.workflows.authoring.images.probe import RIDGE, held_out_scores
from tests.own_data import OwnData


def test_probe_is_ridge_regression_on_the_known() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(60, 5))
    labels = (features[:, :2] + 0.3 * generator.normal(size=(60, 2)) > 0).astype(np.int8)
    labels[::7, 1] = -1
    fold = assign_folds(np.arange(60), 3)
    scores = held_out_scores(features, labels, fold)
    for k in range(2):
        for part in range(3):
            train = (fold != part) & (labels[:, k] >= 0)
            outside = features[fold != part]
            mean = outside.mean(0)
            alpha = RIDGE * ((outside - mean) ** 2).mean() * len(outside)
            target = 2.0 * labels[train, k] - 1
            # The intercept is the known targets' mean at the training mean, as in the module.
            model = Ridge(alpha=alpha, fit_intercept=False).fit(features[train] - mean, target - target.mean())
            expected = model.predict(features[fold == part] - mean) + target.mean()
            assert scores[fold == part, k] == pytest.approx(expected)


def test_folds_keep_units_together() -> None:
    units = np.repeat(np.arange(10), 3)
    fold = assign_folds(units, 5)
    assert all(len(set(fold[units == unit])) == 1 for unit in range(10))
    assert set(fold) == set(range(5))


def test_neighbors_by_hand() -> None:
    features = np.array([[1, 0], [1, 0.1], [1, 0.2], [0, 1], [0.1, 1]])
    units = np.array([0, 0, 1, 2, 3])
    near = nearest(features, units, 2)
    assert near.tolist() == [[2, 4], [2, 4], [1, 0], [4, 2], [3, 2]]
    labels = np.array([[1], [1], [0], [-1], [1]], dtype=np.int8)
    assert disagreement(labels, near)[:, 0].tolist()[:3] == [0.5, 0.5, 1.0]
    assert np.isnan(disagreement(labels, near)[3, 0])
    assert disagreement(labels, near)[4, 0] == 1.0  # the unknown neighbor does not count
    assert chance_disagreement(labels[:, 0]) == pytest.approx(2 * 0.75 * 0.25)
    assert nearest(features[:2], np.array([0, 0]), 3).tolist() == [[-1, -1, -1]] * 2


@pytest.fixture
def world() -> tuple[np.ndarray, np.ndarray, np.ndarray, ConceptSet]:
    """Features that show `size` and not `noise`; `copy` repeats size under another name."""
    concepts = ConceptSet.from_yaml(
        """
groups:
  size: {values: [big, small]}
  noise: {values: [heads, tails]}
  extra: {kind: independent, values: [copy]}
"""
    )
    generator = np.random.default_rng(1)
    size = generator.integers(0, 2, 240)
    features = np.stack([2.0 * size - 1, *generator.normal(0, 0.2, (3, 240))], axis=1)
    coin = generator.integers(0, 2, 240)
    labels = np.stack([size, 1 - size, coin, 1 - coin, size], axis=1).astype(np.int8)
    return features, labels, generator.integers(0, 3, 240), concepts


def test_separability_redundancy_and_noise(world: tuple[np.ndarray, np.ndarray, np.ndarray, ConceptSet]) -> None:
    features, labels, classes, concepts = world
    found = image_findings(features, labels, classes, [f"{n}" for n in range(240)], concepts)
    by_name = {each.concept: each for each in found.concepts}
    assert by_name["size: big"].separability == 1
    assert by_name["size: big"].verdict == ""
    assert by_name["noise: heads"].separability == pytest.approx(0.5, abs=0.1)
    assert "hardly recognizes it" in by_name["noise: heads"].verdict
    assert [(p.first, p.second, round(p.correlation)) for p in found.redundant] == [
        ("size: big", "extra: copy", 1),
        ("size: small", "extra: copy", -1),
    ]
    assert not found.by_class_only
    assert by_name["size: big"].disagreement == 0


def test_flipped_labels_come_first(world: tuple[np.ndarray, np.ndarray, np.ndarray, ConceptSet]) -> None:
    features, labels, classes, concepts = world
    wrong = [3, 50, 111, 200]
    labels[wrong, 0], labels[wrong, 1] = labels[wrong, 1].copy(), labels[wrong, 0].copy()
    found = image_findings(features, labels, classes, [f"{n}" for n in range(240)], concepts)
    first = [each for each in found.review if each.group == "size"][:4]
    assert {int(each.image) for each in first} == set(wrong)
    assert {each.rather for each in first} <= {"big", "small"}


def test_labels_by_class_are_called_so(world: tuple[np.ndarray, np.ndarray, np.ndarray, ConceptSet]) -> None:
    features, labels, _, concepts = world
    found = image_findings(features, labels[:, [0, 1, 0, 1, 0]], labels[:, 0].astype(np.int64), ["x"] * 240, concepts)
    assert found.by_class_only
    assert "follows from the class" in found.how


def test_redundancy_needs_both_labels_and_other_groups(concepts: ConceptSet) -> None:
    labels = np.zeros((20, 5), dtype=np.int8)
    labels[:10, 0] = labels[10:, 1] = 1
    labels[:, 4] = -1
    assert redundancy(labels, concepts) == []


def test_a_users_own_data(own: OwnData, tmp_path: Path) -> None:
    found = api.check_concepts(
        own.concepts,
        data={"source": str(own.table), "class_column": "diagnosis"},
        encoder="builtin/vit-mini",
        n=40,
        out=tmp_path / "out",
    )
    assert found.images is not None
    assert {each.concept for each in found.images.concepts} == {
        "border: regular",
        "border: irregular",
        "signs: hair",
        "signs: ruler",
    }
    assert found.folder is not None
    assert "What the images say" in (found.folder / "judgement.html").read_text()


def test_data_without_these_labels(own: OwnData, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("groups: {wing: {values: [long, short]}}")
    with pytest.raises(UserError, match="no image has a label"):
        api.check_concepts(tmp_path / "c.yaml", data={"source": str(own.table), "class_column": "diagnosis"}, n=40)
