"""What stands for a label or a probability in each space."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from conceptlens.concepts import UNKNOWN
from conceptlens.core.errors import UserError
from conceptlens.evaluation.interventions.edits import class_mean, set_probability, set_value, to_truth, wrong_labels
from conceptlens.evaluation.interventions.value_map import RIDGE, cross_map, fit_map, platt
from conceptlens.stats.folds import assign_folds, sides
from tests.evaluation.trust.world import CONCEPTS, clean, in_probabilities


def test_platt_is_a_logistic_regression() -> None:
    made = clean(400)
    known = np.ones(made.truth.shape, bool)
    known[::3, 2] = False
    slope, offset = platt(made.bottleneck, made.truth == 1, known)
    for column in range(7):
        rows = known[:, column]
        x = made.bottleneck[rows, column]
        unit = x.std()
        model = LogisticRegression(C=1 / RIDGE, tol=1e-9).fit(x[:, None] / unit, made.truth[rows, column])
        assert slope[column] == pytest.approx(model.coef_[0, 0] / unit, rel=1e-3)
        assert offset[column] == pytest.approx(model.intercept_[0], rel=1e-3, abs=1e-3)


def test_a_label_is_a_percentile_or_a_mean() -> None:
    made = clean(400)
    everyone = np.arange(len(made))
    quantile, mean = fit_map(made, everyone, "quantile"), fit_map(made, everyone, "mean")
    assert quantile.yes[0, 3] == pytest.approx(np.quantile(made.bottleneck[:, 3], 0.95))
    assert quantile.no[0, 3] == pytest.approx(np.quantile(made.bottleneck[:, 3], 0.05))
    assert mean.yes[0, 3] == pytest.approx(made.bottleneck[made.truth[:, 3] == 1, 3].mean())
    assert mean.no[0, 3] == pytest.approx(made.bottleneck[made.truth[:, 3] == 0, 3].mean())
    shares = fit_map(in_probabilities(made), everyone)
    assert (shares.yes == 1).all()
    assert (shares.no == 0).all()
    assert shares.score_at(0.3)[0, 0] == 0.3
    with pytest.raises(UserError, match="Did you mean 'quantile'"):
        fit_map(made, everyone, "quantil")


def test_a_probability_becomes_the_score_that_has_it() -> None:
    made = clean(400)
    found = fit_map(made, np.arange(len(made)))
    score = found.score_at(0.5)[0]
    np.testing.assert_allclose(expit(found.slope[0] * score + found.offset[0]), 0.5, atol=1e-9)
    assert (found.score_at(1.0) == found.high).all()  # no further than scores go
    backwards = replace(found, slope=-found.slope)
    np.testing.assert_allclose(backwards.score_at(0.9), (found.low + found.high) / 2)


def test_an_image_teaches_nothing_about_itself() -> None:
    made = clean(100)
    fold = assign_folds(made.units)
    before = cross_map(made, fold)
    changed = made.bottleneck.copy()
    changed[7] += 100
    after = cross_map(replace(made, bottleneck=changed, concept_logits=changed), fold)
    same = np.arange(len(before.yes)) == fold[7]
    for name in ("yes", "no", "values", "slope"):
        np.testing.assert_array_equal(getattr(before, name)[same], getattr(after, name)[same])
        assert not np.isclose(getattr(before, name)[~same], getattr(after, name)[~same]).all()
    np.testing.assert_array_equal(before.of_images(before.yes)[7], before.yes[fold[7]])


def test_folds_keep_units_together_and_are_even() -> None:
    units = [f"patient {place // 3}" for place in range(60)]
    fold = assign_folds(units)
    assert all(len(set(fold[start : start + 3])) == 1 for start in range(0, 60, 3))
    assert np.bincount(fold).tolist() == [12] * 5
    for learn, ask in sides(fold):
        assert not set(learn) & set(ask)
        assert len(learn) + len(ask) == 60


def test_setting_concepts() -> None:
    made = in_probabilities(clean(100))
    maps = fit_map(made, np.arange(len(made)))
    by_value = set_value(made.bottleneck, [1], 0.25)
    assert (by_value[:, 1] == 0.25).all()
    np.testing.assert_array_equal(np.delete(by_value, 1, 1), np.delete(made.bottleneck, 1, 1))
    shares = set_probability(made, maps, made.bottleneck, 0, 0.4)
    np.testing.assert_allclose(shares[:, :3].sum(1), 1)
    np.testing.assert_allclose(shares[:, 1] / shares[:, 2], made.bottleneck[:, 1] / made.bottleneck[:, 2], rtol=1e-3)
    with pytest.raises(UserError, match="between 0 and 1"):
        set_probability(made, maps, made.bottleneck, 0, 1.4)
    assert class_mean(made, [1, 2])[5] == pytest.approx(made.bottleneck[made.labels != 0, 5].mean())
    with pytest.raises(UserError, match="has no mean scores"):
        class_mean(replace(made, labels=np.zeros(len(made), np.int64)), [2])


def test_truth_and_lies() -> None:
    made = in_probabilities(clean(300))
    truth = made.truth.copy()
    truth[4, :3] = UNKNOWN
    made = replace(made, truth=truth)
    maps = fit_map(made, np.arange(len(made)))
    right = to_truth(made, maps)
    confirmed = made.read_labels[5:] == truth[5:]
    np.testing.assert_array_equal(right[5:, :5], truth[5:, :5])  # two groups with one value each
    np.testing.assert_array_equal(right[5:, 5:], np.where(confirmed[:, 5:], made.bottleneck[5:, 5:], truth[5:, 5:]))
    np.testing.assert_array_equal(right[4, :3], made.bottleneck[4, :3])
    wrong = wrong_labels(made, seed=3)
    assert (wrong[4, :3] == UNKNOWN).all()
    rest = np.arange(len(made)) != 4
    assert (wrong[rest, :3].sum(1) == 1).all()
    assert (wrong[rest, :3].argmax(1) != truth[rest, :3].argmax(1)).all()
    np.testing.assert_array_equal(wrong[:, 3:], 1 - truth[:, 3:])
    assert {tuple(row) for row in wrong[truth[:, 0] == 1, :3]} == {(0, 1, 0), (0, 0, 1)}  # both other shapes occur


def test_calibrated_probabilities_are_shares() -> None:
    made = clean(400)
    maps = cross_map(made, assign_folds(made.units))
    shares = maps.probabilities(made.concept_probabilities, CONCEPTS)
    np.testing.assert_allclose(shares[:, :3].sum(1), 1)
    np.testing.assert_allclose(shares.mean(0), made.truth.mean(0), atol=0.03)
