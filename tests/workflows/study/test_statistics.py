"""Each statistic of a study against hand-worked numbers, a naive version or scikit-learn."""

import math
from itertools import combinations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from conceptlens.core.errors import UserError
from conceptlens.stats.wilson import wilson
from conceptlens.workflows.study.agreement import krippendorff_alpha, mean_kappa, weighted_kappa
from conceptlens.workflows.study.contrast import contrast
from conceptlens.workflows.study.power import Plan, images_needed, power_of
from conceptlens.workflows.study.proportions import share_of


def test_kappa_by_hand() -> None:
    # Ratings of four items; observed quadratic disagreement (0 + 1 + 0 + 4) / 4, expected from the margins.
    one, two = [0, 1, 2, 4], [0, 2, 2, 2]
    expected = sum((a - b) ** 2 for a in one for b in two) / 16
    assert weighted_kappa(one, two, 5) == pytest.approx(1 - (5 / 4) / expected)
    assert weighted_kappa([0, 0, 1, 1], [0, 0, 1, 1], 2, "none") == 1
    assert weighted_kappa([0, 0, 1, 1], [0, 1, 0, 1], 2, "none") == 0
    assert weighted_kappa([0, 0, 1, 1], [1, 1, 0, 0], 2, "none") == -1
    assert weighted_kappa([3, 3], [3, 3], 5) is None
    assert weighted_kappa([], [], 5) is None


@pytest.mark.parametrize("weights", ["none", "linear", "quadratic"])
def test_kappa_is_scikit_learns(weights: str) -> None:
    generator = np.random.default_rng(0)
    one = generator.integers(0, 5, 80)
    two = np.clip(one + generator.integers(-1, 2, 80), 0, 4)
    theirs = cohen_kappa_score(one, two, weights=None if weights == "none" else weights, labels=range(5))
    assert weighted_kappa(one, two, 5, weights) == pytest.approx(theirs)  # type: ignore[arg-type]


def test_mean_kappa_over_pairs_and_missing_answers() -> None:
    answers = np.array([[0, 1, 2, 3, -1], [0, 1, 2, 4, 4], [1, 1, -1, 3, 4]])
    each = [
        weighted_kappa([0, 1, 2, 3], [0, 1, 2, 4], 5),
        weighted_kappa([0, 1, 3], [1, 1, 3], 5),
        weighted_kappa([0, 1, 4, 4], [1, 1, 3, 4], 5),
    ]
    assert mean_kappa(answers, 5) == pytest.approx(np.mean([value for value in each if value is not None]))
    assert mean_kappa(answers[:1], 5) is None


def naive_alpha(answers: np.ndarray, squared: bool) -> float:
    """Alpha from its definition: all pairs within items against all pairs at all."""
    apart = (lambda a, b: float((a - b) ** 2)) if squared else (lambda a, b: float(a != b))
    columns = [[value for value in column if value >= 0] for column in answers.T]
    columns = [column for column in columns if len(column) > 1]
    n = sum(map(len, columns))
    observed = sum(
        sum(apart(a, b) for i, a in enumerate(column) for j, b in enumerate(column) if i != j) / (len(column) - 1)
        for column in columns
    )
    pool = [value for column in columns for value in column]
    expected = sum(apart(a, b) for i, a in enumerate(pool) for j, b in enumerate(pool) if i != j) / (n - 1)
    return 1 - observed / expected


@pytest.mark.parametrize("squared", [True, False])
def test_alpha_is_its_definition(squared: bool) -> None:
    generator = np.random.default_rng(1)
    answers = np.clip(generator.integers(0, 5, 30) + generator.integers(-1, 2, (4, 30)), 0, 4)
    answers[generator.random((4, 30)) < 0.2] = -1
    found = krippendorff_alpha(answers, 5, "quadratic" if squared else "none")
    assert found == pytest.approx(naive_alpha(answers, squared))
    assert krippendorff_alpha(np.array([[1, 1], [1, 1]]), 5) is None
    assert krippendorff_alpha(np.array([[1, -1], [-1, 1]]), 5) is None


def test_answers_to_one_image_are_not_independent() -> None:
    once = share_of([1, 1, 1, 0] * 5, range(20))
    assert (once.right, once.n, once.value) == (15, 20, 0.75)
    assert once.independent == pytest.approx(20 * 19 / 20, abs=1.01)
    # Three raters who always agree: three times the answers, no more knowledge.
    thrice = share_of([1, 1, 1, 0] * 15, list(range(20)) * 3)
    assert thrice.independent == 20
    assert (thrice.low, thrice.high) == pytest.approx(wilson(0.75, 20))
    # Raters who differ by chance alone on every image are worth more than one.
    mixed = share_of([1, 1, 1, 0] * 5 + [1, 1, 0, 1] * 5, list(range(20)) * 2)
    assert mixed.independent is not None
    assert mixed.independent > 30
    assert share_of([], []).value is None
    assert share_of([1, 1], [0, 1]).independent == 2


def test_contrast_by_hand() -> None:
    found = contrast([5, 4, 4, 2, 1], [0, 0, 0, 1, 1], ["a", "a", "b", "c", "d"])
    assert found.true.value == pytest.approx(13 / 3)
    assert found.shuffled.value == 1.5
    assert found.difference.value == pytest.approx(13 / 3 - 1.5)
    assert (found.true.n, found.true.images, found.shuffled.images) == (3, 2, 2)
    assert found.above == 1


def test_the_permutation_test_is_the_exact_one() -> None:
    values = [5, 4, 4, 3, 2, 2, 1]
    catch = [0, 0, 0, 1, 0, 1, 1]
    found = contrast(values, catch, range(7)).p
    observed = abs(np.mean([5, 4, 4, 2]) - np.mean([3, 2, 1]))
    deals = list(combinations(range(7), 3))
    gaps = [
        abs(np.mean([values[i] for i in range(7) if i not in deal]) - np.mean([values[i] for i in deal]))
        for deal in deals
    ]
    exact = np.mean([gap >= observed - 1e-12 for gap in gaps])
    assert found == pytest.approx(exact, abs=0.015)


def test_intervals_cover_the_truth() -> None:
    generator = np.random.default_rng(3)
    inside = 0
    for trial in range(40):
        image = generator.normal(0, 0.6, 30)
        ratings = np.concatenate([4 + image + generator.normal(0, 0.8, 30) for _ in range(3)])
        found = contrast(ratings, np.zeros(90), np.tile(np.arange(30), 3), seed=trial).true
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= 4 <= found.high
    assert inside >= 33  # 95 % of 40 are 38; fewer than 33 has a chance below one in a thousand


def test_nothing_to_compare() -> None:
    found = contrast([4, 5], [0, 0], ["a", "b"])
    assert found.shuffled.value is None
    assert found.p is None
    assert found.difference.value is None


def test_power_by_hand() -> None:
    # Half a point at deviation 1, one rater, as many shuffled as true: the textbook's 2 (1.96 + 0.8416)² / 0.25 = 62.8.
    plan = Plan(effect=0.5, deviation=1, power=0.8, raters=1, accuracy=0.5, width=0.1)
    found = images_needed(plan, 0.5)
    assert found.for_likert == 63
    assert found.for_choice == math.ceil(1.959964**2 * 0.25 / 0.01)  # 97
    assert (found.images, found.catch) == (97, 97)
    assert power_of(plan, 63, 63) == pytest.approx(0.8, abs=0.005)


def test_raters_who_see_alike_add_nothing() -> None:
    def needed(share: float, raters: int) -> int:
        return images_needed(Plan(effect=0.5, image_share=share, raters=raters), 0.5).for_likert

    assert needed(1.0, 5) == needed(1.0, 1) == needed(0.0, 1)
    assert needed(0.0, 4) == math.ceil(needed(0.0, 1) / 4)


def test_power_is_what_a_simulation_finds() -> None:
    plan = Plan(effect=1.0, deviation=1.2, image_share=0.5, power=0.9, raters=2)
    need = images_needed(plan, 0.2)
    generator = np.random.default_rng(0)
    found = 0
    for _ in range(400):

        def means(n: int, center: float) -> np.ndarray:
            image = generator.normal(0, 1.2 * math.sqrt(0.5), n)
            return center + image + generator.normal(0, 1.2 * math.sqrt(0.5), (2, n)).mean(0)

        true, shuffled = means(need.for_likert, 1.0), means(round(need.for_likert / 4), 0.0)
        error = math.sqrt(1.2**2 * 0.75 * (1 / len(true) + 1 / len(shuffled)))
        found += abs(true.mean() - shuffled.mean()) / error > 1.96
    assert found / 400 == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize(
    "plan", [Plan(power=1.0), Plan(effect=0), Plan(raters=0), Plan(alpha=0)], ids=lambda plan: str(plan)[:20]
)
def test_plans_that_make_no_sense(plan: Plan) -> None:
    with pytest.raises(UserError):
        images_needed(plan)
    with pytest.raises(UserError):
        images_needed(Plan(), 0.0)
