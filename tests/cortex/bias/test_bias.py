"""Cliff's δ against all pairs and against U, its interval against draws; bias with a known answer."""

import time

import numpy as np
import pytest
import torch
from scipy.stats import mannwhitneyu

from conceptlens.core.errors import UserError
from conceptlens.cortex.bias.bias import Bias, PairBias, correct_together, measure_bias, set_counts
from conceptlens.cortex.bias.cliff import Delta, cliffs_delta, delta_with_interval, effect_words
from conceptlens.cortex.bias.study import value_sets
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.token_sets import TokenSet, rival_sets
from tests.cortex.tiny import CODES, TinyVQ


def all_pairs(x: np.ndarray, y: np.ndarray) -> float:
    return float(np.sign(np.subtract.outer(x, y)).mean())


def equation_15(x: np.ndarray, y: np.ndarray) -> float:
    above = sum(float(a > b) + 0.5 * float(a == b) for a in x for b in y)
    return (above - len(x) * len(y) / 2) / (len(x) * len(y))


def test_delta_is_that_of_all_pairs_and_of_u() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, y = rng.integers(0, 6, rng.integers(1, 30)), rng.integers(1, 8, rng.integers(1, 30))
        found = cliffs_delta(x, y)
        assert found == pytest.approx(all_pairs(x, y))
        assert found == pytest.approx(2 * mannwhitneyu(x, y).statistic / (len(x) * len(y)) - 1)
        assert cliffs_delta(x, y, "paper") == pytest.approx(equation_15(x, y)) == pytest.approx(found / 2)


def test_delta_by_hand() -> None:
    assert cliffs_delta([1, 2, 3], [0, 2]) == pytest.approx(3 / 6)  # (1−1) + (1+0) + (1+1) over 6 pairs
    assert cliffs_delta([5, 6], [1, 2]) == 1
    assert cliffs_delta([5, 6], [1, 2], "paper") == 0.5


def test_words() -> None:
    assert [effect_words(d) for d in (0.146, -0.147, 0.33, -0.474)] == ["negligible", "small", "medium", "large"]


def test_a_hundred_thousand_each_take_less_than_a_second() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 50, 100_000), rng.integers(0, 60, 100_000)
    begin = time.perf_counter()
    cliffs_delta(x, y)
    assert time.perf_counter() - begin < 1


@pytest.mark.parametrize("paired", [True, False])
def test_the_interval_holds_the_truth_as_often_as_it_says(paired: bool) -> None:
    rng = np.random.default_rng(2)
    hits, errors, values = 0, [], []
    for _ in range(400):
        common = rng.poisson(3, 80) if paired else 0
        x, y = common + rng.poisson(3, 80), common + rng.poisson(2, 80)
        found = delta_with_interval(x, y, paired=paired)
        truth = 0.2345 if paired else 0.3383  # from the Poisson probabilities: (6, 5) and (3, 2)
        hits += found.low <= truth <= found.high
        errors.append(found.error)
        values.append(found.value)
    assert 0.92 <= hits / 400 <= 0.98
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.1)


def test_ends_of_the_scale() -> None:
    assert delta_with_interval([3, 4, 5], [0, 1, 2], paired=True).high == 1
    assert delta_with_interval([1], [0], paired=True).low == -1
    with pytest.raises(UserError, match="0 and 2"):
        cliffs_delta([], [1, 2])
    with pytest.raises(UserError, match="not finite"):
        cliffs_delta([float("nan")], [1])
    with pytest.raises(UserError, match="Did you mean 'paper'"):
        cliffs_delta([1], [1], "papier")
    with pytest.raises(UserError, match="equally many"):
        delta_with_interval([1, 2], [1], paired=True)


def sizes() -> list[TokenSet]:
    """Big ones have a row of 6 and more inner tokens, small ones a row of 7: uneven sets, on purpose."""
    return [TokenSet("big", (6, 0, 1, 2, 3, 4, 5), (1,) * 7, 10, 5), TokenSet("small", (7,), (1,), 10, 5)]


def test_counts() -> None:
    assert set_counts(torch.tensor([[[0, 1], [1, 2]], [[2, 2], [2, 2]]]), (1, 0), 3).tolist() == [3, 0]


def neutral(share: float, n: int, seed: int) -> torch.Tensor:
    return TinyVQ(share_big=share).generate(None, n, seed=seed)


def test_a_known_skew_is_found_and_a_balanced_twin_is_not() -> None:
    balanced = torch.cat([TinyVQ().generate(Condition(None, {"size": size}), 150, seed=9) for size in ("big", "small")])
    skewed = measure_bias(sizes(), neutral(0.8, 300, 1), codes=CODES, balanced=balanced)
    pair = skewed.pair("big", "small")
    assert pair.found
    assert "towards 'big'" in pair.text()
    twin = measure_bias(sizes(), neutral(0.5, 300, 2), codes=CODES, balanced=balanced).pair("big", "small")
    assert not twin.found
    assert "no bias found" in twin.text()
    # sets are uneven, so δ itself is large in both: only the null tells them apart
    assert abs(twin.delta.value) > 0.147
    away = measure_bias(sizes(), neutral(0.2, 300, 3), codes=CODES, balanced=balanced).pair("big", "small")
    assert away.found
    assert "towards 'small'" in away.text()


def test_permuted_values_are_a_null_for_sets_that_know_nothing() -> None:
    rng = torch.Generator().manual_seed(0)
    noise = {name: torch.randint(CODES, (40, 5), generator=rng) for name in ("big", "small")}
    sets = [TokenSet("big", (8, 9), (1, 1), 40, 5), TokenSet("small", (10, 11), (1, 1), 40, 5)]
    found = measure_bias(sets, neutral(0.5, 200, 4), codes=CODES, training=noise, k=2, permutations=50)
    assert found.pairs[0].p_permuted > 0.05
    low, high = found.pairs[0].permuted
    assert low <= found.pairs[0].delta.value <= high
    own = {"big": torch.full((40, 5), 6), "small": torch.full((40, 5), 7)}
    sets = [TokenSet("big", (6,), (200,), 40, 5), TokenSet("small", (7,), (200,), 40, 5)]
    found = measure_bias(sets, neutral(0.9, 200, 5), codes=CODES, training=own, k=2, permutations=50)
    assert found.pairs[0].p_permuted == pytest.approx(1 / 51)
    low, high = found.pairs[0].permuted
    assert not low <= found.pairs[0].delta.value <= high


def test_sets_by_lift_leave_out_what_is_everywhere() -> None:
    """Token 0 is the most frequent of both; lift keeps what one has more of than the other."""
    big, small = torch.tensor([[0, 0, 1], [0, 2, 1]]), torch.tensor([[0, 0, 0], [0, 3, 3]])
    by_frequency = [ids.tolist() for ids, _ in rival_sets([big, small], 4, 1)]
    assert by_frequency == [[0], [0]]
    # shares of 0 to 3: (3, 2, 1, 0) / 6 and (4, 0, 0, 2) / 6; what is not above zero is not kept
    by_lift = rival_sets([big, small], 4, 3, "lift")
    assert [(ids.tolist(), counts.tolist()) for ids, counts in by_lift] == [([1, 2], [2, 1]), ([3, 0], [2, 4])]
    with pytest.raises(UserError, match="Did you mean 'lift'"):
        rival_sets([big, small], 4, 1, "lft")
    with pytest.raises(UserError, match="at least two"):
        rival_sets([big], 4, 1, "lift")


def test_sets_by_lift_see_a_skew_that_frequent_ones_cannot() -> None:
    """Most of every image is ground, and most important tokens of both values are: their counts know no skew."""

    def images(share: float, n: int, seed: int) -> torch.Tensor:
        big = torch.rand(n, 1, generator=torch.Generator().manual_seed(seed)) < share
        own = torch.where(big, 6, 7).expand(n, 4)
        return torch.cat([own, torch.full((n, 12), 8)], 1).view(n, 4, 4)

    important = {"big": torch.tensor([[6, 8, 8, 8]] * 30), "small": torch.tensor([[7, 8, 8, 8]] * 30)}
    found = {
        way: measure_bias(
            value_sets(important, 4, 1, CODES, way), images(0.9, 200, 0), codes=CODES, balanced=images(0.5, 200, 1)
        ).pairs[0]
        for way in ("frequency", "lift")
    }
    assert not found["frequency"].found
    assert found["lift"].found
    assert found["lift"].excess > 0.474


def test_several_values_are_corrected() -> None:
    sets = [*sizes(), TokenSet("other", (8,), (1,), 10, 5)]
    balanced = neutral(0.5, 200, 6)
    found = measure_bias(sets, neutral(0.5, 200, 7), codes=CODES, balanced=balanced)
    assert len(found.pairs) == 3
    alone = measure_bias(sets[:2], neutral(0.5, 200, 7), codes=CODES, balanced=balanced)
    assert found.pairs[0].p_balanced >= alone.pairs[0].p_balanced


def test_several_attributes_are_corrected_together() -> None:
    """Holm over raw p of 0.01, 0.02 and 0.04: 0.03, 0.04, 0.04; a null that one attribute lacks is not counted."""

    def bias(*raw: tuple[float | None, float | None]) -> Bias:
        delta = Delta(0.1, 0.0, 0.2, 0.05)
        pairs = tuple(PairBias("a", "b", 1.0, 1.0, 0, delta, None, None, None, raw=each) for each in raw)
        return Bias(pairs, 10, 10, 0)

    first, second = correct_together([bias((0.02, 0.5), (0.01, None)), bias((0.04, 0.03))])
    assert [pair.p_balanced for pair in (*first.pairs, *second.pairs)] == pytest.approx([0.04, 0.03, 0.04])
    assert [pair.p_permuted for pair in (*first.pairs, *second.pairs)] == [0.5, None, pytest.approx(0.06)]


def test_without_a_null_nothing_is_judged() -> None:
    pair = measure_bias(sizes(), neutral(0.9, 50, 8), codes=CODES).pairs[0]
    assert pair.found is None
    assert "not tested" in pair.text()


def test_bad_input_is_said() -> None:
    with pytest.raises(UserError, match="at least two values"):
        measure_bias(sizes()[:1], neutral(0.5, 3, 0), codes=CODES)
    with pytest.raises(UserError, match="twice"):
        measure_bias([*sizes(), sizes()[0]], neutral(0.5, 3, 0), codes=CODES)
    with pytest.raises(UserError, match="neutral samples"):
        measure_bias(sizes(), neutral(0.5, 1, 0), codes=CODES)
    with pytest.raises(UserError, match="none of 'small'"):
        measure_bias(sizes(), neutral(0.5, 3, 0), codes=CODES, training={"big": torch.zeros(2, 2, dtype=torch.long)})
