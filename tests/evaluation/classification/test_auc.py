"""AUC against counting pairs one by one and against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from conceptlens.evaluation.classification.auc import auc, auc_within


def by_pairs(scores: np.ndarray, positive: np.ndarray, strata: np.ndarray) -> float:
    won = pairs = 0.0
    for i in np.flatnonzero(positive):
        for j in np.flatnonzero(~positive):
            if strata[i] == strata[j]:
                pairs += 1
                won += 1.0 if scores[i] > scores[j] else 0.5 if scores[i] == scores[j] else 0.0
    return won / pairs


def test_four_images_by_hand() -> None:
    # positives .9 and .4, negatives .4 and .1: pairs 1, 1, ½, 1
    assert auc([0.9, 0.4, 0.4, 0.1], [1, 1, 0, 0]) == 3.5 / 4


@pytest.mark.parametrize("levels", [3, 1000])
def test_equals_scikit_learn_and_pairs(levels: int) -> None:
    rng = np.random.default_rng(levels)
    scores, positive, strata = rng.integers(levels, size=80) / 7, rng.random(80) < 0.3, rng.integers(4, size=80)
    assert auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores), abs=1e-12)
    assert auc_within(scores, positive, strata) == pytest.approx(by_pairs(scores, positive, strata), abs=1e-12)


def test_a_score_that_only_knows_the_stratum_is_at_chance_within() -> None:
    strata = np.repeat([0, 1], 50)
    positive = np.r_[np.arange(50) < 5, np.arange(50) < 45]
    assert auc(strata, positive) == pytest.approx(0.9)
    assert auc_within(strata, positive, strata) == 0.5


def test_strata_weigh_in_with_their_pairs() -> None:
    # stratum 0: one pair, right; stratum 1: 2 × 2 pairs, all wrong; stratum 2: one outcome, no pair
    scores = [1, 0, 0, 0, 1, 1, 5, 6]
    positive = [1, 0, 1, 1, 0, 0, 1, 1]
    assert auc_within(scores, positive, [0, 0, 1, 1, 1, 1, 2, 2]) == 1 / 5


def test_one_outcome_has_no_auc() -> None:
    assert auc([1, 2], [1, 1]) is None
    assert auc([], []) is None
    assert auc_within([1, 2], [1, 0], [0, 1]) is None
