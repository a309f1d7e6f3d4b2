"""Weighted statistics equal plain ones on repeated images; intervals cover as often as they say."""

import numpy as np
import pytest
from sklearn import metrics as sk

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.evaluation.classification.classification import class_metrics
from conceptlens.evaluation.concepts.concepts import concept_metrics
from conceptlens.evaluation.concepts.groups import group_scores
from conceptlens.evaluation.intervals import class_statistics, concept_statistics, metric_intervals
from conceptlens.nn.heads.probabilities import class_probabilities
from conceptlens.recipes.schema import MetricsConfig
from conceptlens.stats import bootstrap
from conceptlens.stats.bootstrap import bootstrap_intervals, resample_weights
from conceptlens.stats.weighted import weighted_accuracy, weighted_auc, weighted_balanced_accuracy

CONCEPTS = ConceptSet.from_yaml(
    "groups:\n  shape: {values: [round, oval, odd]}\n  marks: {kind: independent, values: [spots, stripes]}\n"
)


def some_run(n: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(-1, 3, size=n)
    logits = rng.normal(size=(n, 3)) + 1.5 * (labels[:, None] == np.arange(3))
    marks = np.c_[np.eye(3, dtype=np.int8)[rng.integers(3, size=n)], rng.random((n, 2)) < 0.3].astype(np.int8)
    concept_logits = rng.normal(size=(n, 5)) + marks
    marks[rng.random(n) < 0.1, :3] = -1
    marks[rng.random(n) < 0.1, 4] = -1
    return logits, labels, concept_logits, marks


def drawn(n: int, resamples: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Indices (R, n) drawn with replacement and the weights (R, n) that say the same."""
    index = np.random.default_rng(seed).integers(n, size=(resamples, n))
    return index, np.stack([np.bincount(row, minlength=n) for row in index]).astype(float)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("share", [0.2, 0.8])
def test_weights_equal_repeated_images(order: str, share: float) -> None:
    rng = np.random.default_rng(1)
    n = 60
    scores, positive = rng.integers(20, size=n) / 20, rng.random(n) < share
    labels, predicted = rng.integers(3, size=n), rng.integers(3, size=n)
    index, counts = drawn(n)
    weights = np.asarray(counts, order=order)  # type: ignore[call-overload]
    found = weighted_auc(scores, positive, weights)
    assert found == pytest.approx([sk.roc_auc_score(positive[i], scores[i]) for i in index])
    found = weighted_balanced_accuracy(predicted, labels, weights)
    assert found == pytest.approx([sk.balanced_accuracy_score(labels[i], predicted[i]) for i in index])
    found = weighted_accuracy(predicted == labels, weights)
    assert found == pytest.approx([sk.accuracy_score(labels[i], predicted[i]) for i in index])


def test_what_is_not_known_does_not_count() -> None:
    rng = np.random.default_rng(2)
    scores, positive, known = rng.random(50), rng.random(50) < 0.5, rng.random(50) < 0.6
    _, weights = drawn(50)
    assert weighted_auc(scores, positive, weights, known) == pytest.approx(
        weighted_auc(scores[known], positive[known], weights[:, known])
    )
    assert weighted_accuracy(positive, weights, known) == pytest.approx(
        weighted_accuracy(positive[known], weights[:, known])
    )
    labels = np.where(known, positive, -1)
    assert weighted_balanced_accuracy(positive * 0, labels, weights) == pytest.approx(0.5)


def test_a_resample_without_a_value_is_nan() -> None:
    weights = np.array([[2.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    assert np.isnan(weighted_auc([1, 2, 3], [1, 0, 0], weights)).tolist() == [True, False, True]
    assert np.isnan(weighted_accuracy([1, 1, 1], weights)).tolist() == [False, False, True]
    labels = np.array([0, 1, 1])
    assert np.isnan(weighted_balanced_accuracy(labels, labels, weights, at_least=2)).tolist() == [True, False, True]
    assert weighted_auc([1.0, 2.0, 3.0], [1, 1, 1], weights).shape == (3,)


def test_resamples_are_whole_seeded_and_do_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    once = np.concatenate(list(resample_weights(30, resamples=10, seed=4)))
    assert once.shape == (10, 30)
    assert (once.sum(1) == 30).all()
    monkeypatch.setattr(bootstrap, "BLOCK", 70)
    pieces = list(resample_weights(30, resamples=10, seed=4))
    assert [len(piece) for piece in pieces] == [2] * 5
    assert np.array_equal(np.concatenate(pieces), once)
    assert not np.array_equal(np.concatenate(list(resample_weights(30, resamples=10, seed=5))), once)


def test_a_group_is_drawn_as_a_whole() -> None:
    groups = ["a", "b", "a", "c", "b", "b"]
    weights = np.concatenate(list(resample_weights(6, groups, resamples=50)))
    assert np.array_equal(weights[:, 0], weights[:, 2])
    assert np.array_equal(weights[:, 1], weights[:, 4])
    assert np.array_equal(weights[:, 1], weights[:, 5])
    assert (weights[:, [0, 1, 3]].sum(1) == 3).all()
    with pytest.raises(UserError, match="a group for each of 5 images, found 6"):
        next(resample_weights(5, groups))


def test_interval_of_a_share_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered, widths = 0, []
    for trial in range(200):
        correct = (rng.random(150) < 0.7).astype(float)
        interval = bootstrap_intervals(
            {"share": lambda weights, correct=correct: weighted_accuracy(correct, weights)},  # type: ignore[misc]
            150,
            resamples=300,
            confidence=0.9,
            seed=trial,
        )["share"]
        assert interval is not None
        covered += interval[0] <= 0.7 <= interval[1]
        widths.append(interval[1] - interval[0])
    assert 0.84 <= covered / 200 <= 0.96
    assert np.mean(widths) == pytest.approx(2 * 1.645 * (0.21 / 150) ** 0.5, rel=0.1)


def test_images_of_one_group_are_worth_one() -> None:
    correct = np.repeat(np.random.default_rng(0).random(40) < 0.6, 10).astype(float)
    groups = [str(i // 10) for i in range(400)]
    statistics = {"share": lambda weights: weighted_accuracy(correct, weights)}
    narrow, wide = bootstrap_intervals(statistics, 400)["share"], bootstrap_intervals(statistics, 400, groups)["share"]
    assert narrow is not None
    assert wide is not None
    assert (wide[1] - wide[0]) / (narrow[1] - narrow[0]) == pytest.approx(10**0.5, rel=0.15)


def test_headline_statistics_equal_the_metrics_they_stand_beside() -> None:
    logits, labels, concept_logits, marks = some_run()
    ones = np.ones((1, len(labels)))
    found = class_metrics(class_probabilities(logits, "single"), labels, "single")
    for name, statistic in class_statistics(class_probabilities(logits, "single"), labels, "single").items():
        assert statistic(ones)[0] == pytest.approx(found[name.removeprefix("class.")])
    described = concept_metrics(concept_logits, marks, CONCEPTS)
    index, weights = drawn(len(labels), resamples=5)
    again = [concept_metrics(concept_logits[i], marks[i], CONCEPTS) for i in index]
    for name, statistic in concept_statistics(group_scores(concept_logits, marks, CONCEPTS)).items():
        short = name.removeprefix("concept.")
        assert statistic(ones)[0] == pytest.approx(described[short])
        assert statistic(weights) == pytest.approx([one[short] for one in again])


def test_multilabel_statistics_equal_the_metrics() -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(-1, 2, size=(50, 3))
    values, thresholds = rng.random((50, 3)), [0.4, 0.5, 0.6]
    found = class_metrics(values, labels, "multilabel", thresholds)
    for name, statistic in class_statistics(values, labels, "multilabel", thresholds).items():
        assert statistic(np.ones((1, 50)))[0] == pytest.approx(found[name.removeprefix("class.")])


def test_intervals_of_a_run() -> None:
    logits, labels, concept_logits, marks = some_run(200)
    config = MetricsConfig(bootstrap=200)
    shares = class_probabilities(logits, "single")
    given = (shares, labels, concept_logits, marks, CONCEPTS)
    found = metric_intervals(*given, None, config)
    points = {f"class.{k}": v for k, v in class_metrics(shares, labels, "single").items()}
    points |= {f"concept.{k}": v for k, v in concept_metrics(concept_logits, marks, CONCEPTS).items()}
    assert set(found) == {
        "class.accuracy",
        "class.balanced_accuracy",
        "class.macro_auc",
        "concept.accuracy",
        "concept.balanced_accuracy",
        "concept.auc",
    }
    for name, interval in found.items():
        assert interval is not None
        assert interval[0] < points[name] < interval[1]
        assert interval[1] - interval[0] < 0.25
    assert metric_intervals(*given, None, config) == found
    assert metric_intervals(*given, None, MetricsConfig(bootstrap=0)) == {}
    assert set(metric_intervals(*given, ["one patient"] * 200, config).values()) == {None}
    nothing = metric_intervals(shares, labels * 0 - 1, concept_logits, marks * 0 - 1, CONCEPTS, None, config)
    assert set(nothing.values()) == {None}


def test_confidence_must_be_a_share() -> None:
    with pytest.raises(UserError, match=r"between 0 and 1.*found 95"):
        bootstrap_intervals({}, 3, confidence=95)
