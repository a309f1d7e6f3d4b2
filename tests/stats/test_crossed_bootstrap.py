"""The crossed bootstrap against loops, against hand-worked numbers, and against a world whose truth is known."""

import numpy as np
import numpy.typing as npt
import pytest

from conceptlens.stats.crossed_bootstrap import Spread, spreads
from conceptlens.stats.paired_permutation import p_values, unit_differences
from conceptlens.stats.questions import Decided, Question

Booleans = npt.NDArray[np.bool_]


def trainings(right: Booleans) -> list[dict[str, Question]]:
    """Accuracy of S trainings from who was right, (S, N)."""
    truth = np.zeros(right.shape[1], np.int64)
    return [{"accuracy": Decided(np.where(row, 0, 1), truth, balanced=False)} for row in right]


def test_equals_loops() -> None:
    """The same draws, one resample and one seed at a time."""
    generator = np.random.default_rng(1)
    right, units = generator.random((3, 20)) < 0.7, np.array([f"patient {n // 2}" for n in range(20)])
    found = spreads(trainings(right), units, resamples=50)["accuracy"]
    names = np.unique(units)
    draws = np.random.default_rng(0)
    resampled = []
    for _ in range(50):
        chosen = names[draws.integers(len(names), size=len(names))]
        images = [image for name in chosen for image in np.flatnonzero(units == name)]
        resampled.append([right[seed][images].mean() for seed in range(3)])
    assert found.resampled == pytest.approx(np.array(resampled).T)
    assert found.plain == pytest.approx(right.mean(1))
    seeds = np.random.default_rng([0, 1]).integers(3, size=(50, 3))
    plain = right.mean(1)
    expected = [
        np.mean(resampled[b]) + np.sqrt(3 / 2) * (np.mean([plain[s] for s in seeds[b]]) - plain.mean())
        for b in range(50)
    ]
    assert found.draws() == pytest.approx(np.array(expected))


def test_error_adds_units_and_seeds() -> None:
    still = np.full((2, 100), 0.5)
    assert Spread(np.array([0.4, 0.6]), still).error() == pytest.approx(np.sqrt(0.02 / 2))  # variance of two: .02
    assert Spread(np.array([0.5, 0.5]), still).error() == 0
    moved = still + np.tile([-0.1, 0.1], 50)
    assert Spread(np.array([0.5, 0.5]), moved).error() == pytest.approx(np.sqrt(0.01 * 100 / 99))


def test_with_seeds_alone_it_is_the_t_test() -> None:
    from scipy.stats import ttest_1samp

    plain = np.array([0.01, 0.03, 0.02, 0.05])
    alone = Spread(plain, np.repeat(plain[:, None], 10, axis=1))
    assert alone.p_value() == pytest.approx(ttest_1samp(plain, 0).pvalue, rel=1e-6)


def test_differences_are_welchs_unless_trainings_are_paired() -> None:
    from scipy.stats import ttest_ind, ttest_rel

    first, second = np.array([0.51, 0.53, 0.52, 0.55]), np.array([0.50, 0.52, 0.45, 0.47])
    one, two = (Spread(plain, np.repeat(plain[:, None], 10, axis=1)) for plain in (first, second))
    assert one.minus(two).p_value() == pytest.approx(ttest_ind(first, second, equal_var=False).pvalue, rel=1e-6)
    assert one.minus(two, paired=True).p_value() == pytest.approx(ttest_rel(first, second).pvalue, rel=1e-6)
    assert one.minus(two).mean == pytest.approx(first.mean() - second.mean())
    assert np.std(one.minus(two).draws()) > 0


def test_with_units_alone_it_is_the_normal_test() -> None:
    from scipy.stats import norm

    resampled = np.random.default_rng(2).normal(0.02, 0.01, size=(1, 4000))
    spread = Spread(np.array([0.02]), resampled)
    assert spread.p_value() == pytest.approx(2 * norm.sf(0.02 / resampled.std(ddof=1)), rel=1e-6)
    needed = (norm.isf(0.025) + norm.isf(0.2)) * resampled.std(ddof=1)  # 1.96 + 0.84
    assert spread.detectable() == pytest.approx(needed)
    assert spread.detectable(comparisons=10) > needed
    interval = spread.interval()
    assert interval is not None
    assert interval == pytest.approx(tuple(np.quantile(resampled, [0.025, 0.975])))
    assert spread.interval(within=(0.02, 0.021)) == (0.02, 0.021)


def test_what_has_no_value_has_no_interval() -> None:
    assert Spread(np.array([np.nan]), np.full((1, 50), np.nan)).interval() is None
    same = Spread(np.array([0.5]), np.full((1, 50), 0.5))
    assert same.interval() == (0.5, 0.5)
    assert same.minus(same).p_value() == 1
    assert same.minus(same).detectable() == 0


def world(seed: int, *, seeds: int, units: int, by_seed: float, gain: float = 0.0) -> tuple[list[Booleans], object]:
    """Who is right, for two methods: units differ in difficulty, methods in units, trainings by their seed."""
    generator = np.random.default_rng(seed)
    shared, unit = generator.normal(0, 1.5, size=units), np.repeat(np.arange(units), 2)
    made = []
    for method in range(2):
        own = 1.5 + gain * (method == 0) + shared + generator.normal(0, 0.7, size=units)
        logit = own[None] + generator.normal(0, by_seed, size=(seeds, 1)) if by_seed else np.tile(own, (seeds, 1))
        made.append(generator.random((seeds, 2 * units)) < (1 / (1 + np.exp(-logit)))[:, unit])
    return made, unit.astype(str)


def judged(count: int, *, seeds: int, units: int, by_seed: float, gain: float = 0.0) -> dict[str, float]:
    """Shares over repeated worlds."""
    spread = np.sqrt(1.5**2 + 0.7**2 + by_seed**2)
    far = np.random.default_rng(9).normal(1.5 + gain, spread, size=1_000_000)
    true = float((1 / (1 + np.exp(-far))).mean())
    covered, by_images, both, gaps = [], [], [], []
    for number in range(count):
        (first, second), unit = world(number, seeds=seeds, units=units, by_seed=by_seed, gain=gain)
        asked = [trainings(right) for right in (first, second)]
        one, two = (spreads(each, unit, resamples=150)["accuracy"] for each in asked)  # type: ignore[arg-type]
        low, high = one.interval() or (0, 0)
        covered.append(low <= true <= high)
        parts = unit_differences(*[[each["accuracy"] for each in side] for side in asked], unit)  # type: ignore[arg-type]
        p = float(p_values(parts[:, None], permutations=199)[0])
        by_images.append(p < 0.05)
        both.append(max(p, one.minus(two).p_value()) < 0.05)
        gaps.append(one.minus(two).detectable())
    return {
        name: float(np.mean(each))
        for name, each in {"covered": covered, "by_images": by_images, "both": both, "detectable": gaps}.items()
    }


@pytest.mark.parametrize(("seeds", "by_seed"), [(1, 0.0), (3, 0.5), (5, 0.5)])
def test_intervals_cover_the_truth_and_equal_methods_seldom_differ_significantly(seeds: int, by_seed: float) -> None:
    found = judged(120, seeds=seeds, units=120, by_seed=by_seed)
    assert 0.89 <= found["covered"] <= 1.0  # 0.95 ± 3 standard errors of 120 worlds
    assert found["both"] <= 0.12
    if by_seed:
        assert found["by_images"] > 0.2  # units alone would call two trainings of one method different


def test_without_seed_variance_the_permutation_test_keeps_its_level_and_finds_what_is_detectable() -> None:
    null = judged(120, seeds=1, units=120, by_seed=0.0)
    assert 0.0 <= null["by_images"] <= 0.12
    real = judged(60, seeds=1, units=120, by_seed=0.0, gain=1.0)
    far = np.random.default_rng(9).normal(0, np.sqrt(1.5**2 + 0.7**2), size=500_000)
    gap = float((1 / (1 + np.exp(-far - 2.5))).mean() - (1 / (1 + np.exp(-far - 1.5))).mean())
    assert gap == pytest.approx(real["detectable"], rel=0.4)  # so about 80 % are found
    assert 0.6 <= real["both"] <= 0.99
