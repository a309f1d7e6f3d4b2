"""AUC within strata, under weights, against the plain statistic of repeated images."""

import numpy as np
import pytest

from conceptlens.evaluation.classification.auc import auc_within
from conceptlens.stats.weighted import weighted_auc
from conceptlens.stats.weighted_within import weighted_auc_within


@pytest.mark.parametrize("share", [0.2, 0.8])
def test_equals_the_plain_auc_of_the_repeated_images(share: float) -> None:
    generator = np.random.default_rng(3)
    n = 50
    scores = generator.integers(8, size=n) / 4  # ties
    positive, strata = generator.random(n) < share, generator.integers(-1, 3, size=n)
    weights = generator.integers(0, 4, size=(6, n)).astype(float)
    found = weighted_auc_within(scores, positive, strata, weights)
    for row, value in zip(weights.astype(int), found, strict=True):
        again = np.repeat(np.arange(n), np.where(strata >= 0, row, 0))
        assert value == pytest.approx(auc_within(scores[again], positive[again], strata[again]))


def test_one_stratum_is_the_pooled_auc() -> None:
    generator = np.random.default_rng(4)
    scores, positive = generator.normal(size=40), generator.random(40) < 0.5
    weights = generator.integers(0, 3, size=(5, 40)).astype(float)
    pooled = weighted_auc(scores, positive, weights)
    assert weighted_auc_within(scores, positive, np.zeros(40, int), weights) == pytest.approx(pooled)


def test_without_a_pair_there_is_no_value() -> None:
    assert np.isnan(weighted_auc_within([1.0, 2.0], [True, False], [0, 1], np.ones((2, 2)))).all()
    assert np.isnan(weighted_auc_within([1.0, 2.0], [True, False], [0, 0], np.array([[1.0, 0.0]]))).all()
