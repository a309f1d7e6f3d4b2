"""PCBM's SVMs against scikit-learn's other solver and against their own objective."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

from conceptlens.methods.fitted.concept_vectors import ConceptVector, concept_vector
from conceptlens.nn.setup import Setup
from tests.methods.fit_world import directions, fit_images


def find(setup: Setup, concept: int, **changes: object) -> ConceptVector:
    settings = {"c": [0.1], "samples": 0, "seed": 0} | changes
    found = concept_vector(concept, fit_images(setup, 120, 1), fit_images(setup, 60, 2), **settings)  # type: ignore[arg-type]
    assert isinstance(found, ConceptVector)
    return found


def test_against_the_dual_solver(setup: Setup) -> None:
    images, found = fit_images(setup, 120, 1), find(setup, 2)
    svm = LinearSVC(C=0.1, dual=True, class_weight="balanced", max_iter=100_000, tol=1e-8, random_state=0)
    mean = images.vectors.astype(np.float64).mean(0)
    svm.fit(images.vectors - mean, images.concepts[:, 2])
    np.testing.assert_allclose(found.vector, svm.coef_[0], atol=1e-3)
    assert found.intercept == pytest.approx(float(svm.intercept_[0] - svm.coef_[0] @ mean), abs=1e-3)


def test_where_the_vectors_lie_does_not_matter(setup: Setup) -> None:
    """The plane moves with them, though the solver penalizes the intercept."""
    shift = np.full(setup.width, 5.0, np.float32)
    moved = [
        replace(each, vectors=each.vectors + shift) for each in (fit_images(setup, 120, 1), fit_images(setup, 60, 2))
    ]
    found, other = find(setup, 4), concept_vector(4, *moved, c=[0.1], samples=0, seed=0)
    assert isinstance(other, ConceptVector)
    np.testing.assert_allclose(other.vector, found.vector, atol=1e-4)
    assert other.intercept == pytest.approx(found.intercept - found.vector @ shift, abs=1e-3)


@pytest.mark.parametrize("concept", range(5))
def test_the_vector_points_along_the_concept(setup: Setup, concept: int) -> None:
    """Opposites share a plane, so their vectors are the difference of two directions; the last concept stands alone."""
    d = directions(setup)
    truth = d[4] if concept == 4 else d[concept] - d[concept ^ 1]
    found = find(setup, concept)
    cosine = found.vector @ truth / np.linalg.norm(found.vector) / np.linalg.norm(truth)
    assert cosine > 0.95
    assert found.auc == 1.0


def test_unknown_labels_are_left_out_and_weights_count(setup: Setup) -> None:
    images, val = fit_images(setup, 120, 1), fit_images(setup, 60, 2)
    hidden = images.concepts.copy()
    hidden[:40, 4] = -1
    kept = replace(images, vectors=images.vectors[40:], labels=images.labels[40:], concepts=images.concepts[40:])
    certainty = np.ones((120, 5), np.float32)
    certainty[:40] = 0
    found = [
        concept_vector(4, each, val, c=[0.1], samples=0, seed=0)
        for each in (replace(images, concepts=hidden), kept, replace(images, certainty=certainty))
    ]
    for each in found:
        assert isinstance(each, ConceptVector)
        np.testing.assert_allclose(each.vector, found[1].vector, rtol=1e-6)  # type: ignore[union-attr]


@pytest.mark.parametrize(("value", "words"), [(1, "without"), (0, "with "), (-1, "without")])
def test_a_concept_with_one_side_has_no_vector(setup: Setup, value: int, words: str) -> None:
    images = fit_images(setup, 30, 1)
    images.concepts[:, 4] = value
    found = concept_vector(4, images, images, c=[1.0], samples=0, seed=0)
    assert isinstance(found, str)
    assert words in found


def test_validation_chooses_c(setup: Setup) -> None:
    """Of C = 1e-9 and others, the one with the largest AUC; the first where validation has one side only."""
    train, val = fit_images(setup, 40, 1), fit_images(setup, 60, 2)
    noisy = replace(train, vectors=train.vectors + np.random.default_rng(0).normal(size=train.vectors.shape) * 3)
    c = [1e-4, 1e-2, 1.0]
    found = concept_vector(4, noisy, val, c=c, samples=0, seed=0)
    aucs = []
    for value in c:
        svm = LinearSVC(C=value, dual=False, class_weight="balanced")
        svm.fit(noisy.vectors - noisy.vectors.mean(0), noisy.concepts[:, 4])
        aucs.append(roc_auc_score(val.concepts[:, 4], val.vectors @ svm.coef_[0]))
    assert isinstance(found, ConceptVector)
    assert found.auc == pytest.approx(max(aucs))
    assert found.c == c[int(np.argmax(aucs))]
    val.concepts[:, 4] = 1
    assert concept_vector(4, noisy, val, c=c, samples=0, seed=0).c == 1e-4  # type: ignore[union-attr]


def test_samples_are_drawn_by_seed(setup: Setup) -> None:
    first, again, other = (find(setup, 4, samples=10, seed=seed).vector for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
