"""Measures as questions: values as the metrics give them, differences that are sums over images after any swap."""

import numpy as np
import pytest
from scipy.stats import rankdata

from conceptlens.concepts import ConceptSet
from conceptlens.evaluation.classification.auc import auc_within
from conceptlens.evaluation.classification.classification import class_metrics
from conceptlens.evaluation.concepts.concepts import concept_metrics
from conceptlens.nn.heads.probabilities import class_probabilities
from conceptlens.stats.questions import Decided, Ordered, difference, exists, value
from conceptlens.workflows.compare.measures import Answers, questions

CONCEPTS = ConceptSet.from_yaml(
    "groups:\n  shape: {values: [round, long, odd]}\n  extras: {kind: independent, values: [dots, hair]}\n"
)


def some_answers(seed: int, *, folds: int = 1, n: int = 60) -> Answers:
    truth, noise = np.random.default_rng(0), np.random.default_rng(seed)
    labels = truth.integers(-1, 3, size=n)
    shape = np.eye(3, dtype=np.int8)[truth.integers(3, size=n)]
    extras = truth.integers(-1, 2, size=(n, 2)).astype(np.int8)
    concepts = np.concatenate([shape, extras], axis=1)
    concepts[truth.random(n) < 0.1, :3] = -1
    return Answers(
        task="single",
        logits=noise.normal(size=(n, 3)).astype(np.float32) + np.eye(3, dtype=np.float32)[labels],
        concept_logits=(noise.normal(size=(n, 5)) + concepts).astype(np.float32),
        labels=labels,
        concept_labels=concepts,
        concepts=CONCEPTS,
        thresholds=np.full((n, 3), 0.5),
        fold=truth.integers(folds, size=n),
    )


def test_values_are_those_of_metrics_json() -> None:
    answers = some_answers(1)
    whole = np.ones((1, 60))
    found = {name: float(value(question, whole)[0]) for name, question in questions(answers).items()}
    classes = class_metrics(class_probabilities(answers.logits, "single"), answers.labels, "single")
    concepts = concept_metrics(answers.concept_logits, answers.concept_labels, CONCEPTS, class_labels=answers.labels)
    expected = {f"class.{name}": classes[name] for name in ("accuracy", "balanced_accuracy", "macro_auc")}
    expected |= {f"concept.{name}": concepts[name] for name in ("balanced_accuracy", "auc", "auc_within_class")}
    assert found == pytest.approx(expected)


def test_multilabel_values() -> None:
    generator = np.random.default_rng(5)
    labels = generator.integers(-1, 2, size=(50, 3))
    answers = Answers(
        "multilabel",
        generator.normal(size=(50, 3)).astype(np.float32),
        np.zeros((50, 0), np.float32),
        labels,
        np.zeros((50, 0), np.int8),
        ConceptSet("none", (), (), ()),
        np.full((50, 3), 0.4),
        np.zeros(50, np.int64),
    )
    asked = questions(answers)
    expected = class_metrics(class_probabilities(answers.logits, "multilabel"), labels, "multilabel", [0.4] * 3)
    for name in ("accuracy", "balanced_accuracy", "macro_auc"):
        assert float(value(asked[f"class.{name}"], np.ones((1, 50)))[0]) == pytest.approx(expected[name])
    assert not exists(asked["concept.auc"])
    assert np.isnan(value(asked["concept.auc"], np.ones((2, 50)))).all()


def test_scores_of_different_folds_are_not_ordered_together() -> None:
    """Each fold perfect, but the second fold's scores all lie higher: pooled, the AUC would be 0.75."""
    scores, positive, fold = np.array([1.0, 2, 3, 4]), np.array([False, True, False, True]), np.array([0, 0, 1, 1])
    assert Ordered(scores, positive, fold).value(np.ones((1, 4)))[0] == 1
    assert Ordered(scores, positive, np.zeros(4, int)).value(np.ones((1, 4)))[0] == 0.75


@pytest.mark.parametrize("name", questions(some_answers(1)))
def test_differences_are_sums_over_images(name: str) -> None:
    first, second = questions(some_answers(1, folds=2)), questions(some_answers(2, folds=2))
    whole = np.ones((1, 60))
    expected = value(first[name], whole)[0] - value(second[name], whole)[0]
    assert difference(first[name], second[name]).sum() == pytest.approx(expected)
    assert difference(first[name], first[name]) == pytest.approx(np.zeros(60))


def test_after_a_swap_the_auc_differs_by_the_signed_sum() -> None:
    """The claim of the derivation: against the AUCs of the swapped ranks themselves."""
    generator = np.random.default_rng(7)
    n = 40
    positive, strata = generator.random(n) < 0.4, generator.integers(-1, 3, size=n)
    x = generator.integers(0, 12, size=n) / 3
    y = x + generator.integers(-4, 5, size=n) / 3
    parts = Ordered(x, positive, strata).against(Ordered(y, positive, strata))
    kept = strata >= 0
    ranks = [np.zeros(n), np.zeros(n)]
    for rank, scores in zip(ranks, (x, y), strict=True):
        rank[kept] = rankdata(scores[kept])

    def plain(scores: np.ndarray) -> float:  # type: ignore[type-arg]
        found = auc_within(scores[kept], positive[kept], strata[kept])
        assert found is not None
        return found

    for _ in range(20):
        signs = generator.integers(2, size=n) * 2 - 1
        one, two = np.where(signs > 0, ranks[0], ranks[1]), np.where(signs > 0, ranks[1], ranks[0])
        assert float(signs @ parts) == pytest.approx(plain(one) - plain(two))


def test_after_a_swap_the_balanced_accuracy_differs_by_the_signed_sum() -> None:
    generator = np.random.default_rng(8)
    truth, one, two = (generator.integers(low, 3, size=30) for low in (-1, 0, 0))
    parts = Decided(one, truth, balanced=True).against(Decided(two, truth, balanced=True))
    signs = generator.integers(2, size=30) * 2 - 1
    swapped = [np.where(signs > 0, a, b) for a, b in ((one, two), (two, one))]
    recalls = [np.mean([(each[truth == c] == c).mean() for c in range(3)]) for each in swapped]
    assert float(signs @ parts) == pytest.approx(recalls[0] - recalls[1])


def test_questions_without_two_answers_have_no_value() -> None:
    assert not exists(Decided(np.array([0, 1]), np.array([0, 0]), balanced=True, at_least=2))
    assert not exists(Decided(np.array([0]), np.array([-1]), balanced=False))
    assert not exists([Ordered(np.array([1.0, 2]), np.array([True, True]), np.zeros(2, int))])
