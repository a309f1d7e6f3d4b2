"""Groups that are failed are found, groups that are not are left alone, and patients stay together."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import fisher_exact

from conceptlens.core.errors import UserError
from conceptlens.evaluation.subgroups.metadata import Column, make_columns
from conceptlens.evaluation.subgroups.outcomes import ACCURACY, MEASURES, Outcomes
from conceptlens.evaluation.subgroups.subgroups import class_residuals, judge_groups
from conceptlens.evaluation.subgroups.verdict import judge_subgroups
from conceptlens.stats.block_permutation import BlockPermutation
from conceptlens.stats.estimates import Bootstrap


def made(hit: np.ndarray, classes: np.ndarray | None = None, units: list[str] | None = None) -> Outcomes:
    n = len(hit)
    nothing = np.full(n, np.nan)
    return Outcomes(
        tuple(f"{i}.png" for i in range(n)),
        tuple(units or [f"image {i}" for i in range(n)]),
        np.zeros(n, dtype=np.int64) if classes is None else classes,
        hit.astype(float),
        np.full(n, 0.9),
        nothing,
        nothing,
    )


def judged(seen: Outcomes, column: Column, permutations: int = 1999) -> dict:
    groups, _ = judge_groups(seen, [column], Bootstrap(seen.units, 200), permutations=permutations)
    return {each.group: each for each in groups}


def test_numbers_are_cut_into_bands_and_names_are_left_out() -> None:
    ages = [str(age) for age in range(20, 60)]
    found, skipped = make_columns(
        {"age": ages, "sex": ["f", "m"] * 20, "file": [f"x{i}" for i in range(40)], "all": ["a"] * 40}
    )
    assert [column.name for column in found] == ["age", "sex"]
    assert "as a name would" in skipped["file"]
    assert "same of every image" in skipped["all"]
    assert len(found[0].groups) == 4
    assert np.bincount(found[0].member).tolist() == [10, 10, 10, 10] or np.bincount(found[0].member).min() >= 9
    assert found[0].groups[0].startswith("up to")


def test_bands_of_a_column_that_is_mostly_its_largest_number() -> None:
    (column,), _ = make_columns({"share": [*map(str, range(12)), *["100"] * 88]})
    assert column.groups == ("up to 11", "above 11")
    assert np.bincount(column.member).tolist() == [12, 88]


def test_patients_of_different_sizes_cannot_be_exchanged_and_are_not_tested() -> None:
    units = [f"patient {size}" for size in range(1, 25) for _ in range(size)]
    site = np.array([int(unit.split()[1]) % 2 for unit in units])
    seen, column = made(site == 1, units=units), Column("site", ("a", "b"), site)
    groups, comparisons = judge_groups(seen, [column], Bootstrap(seen.units, 20))
    assert comparisons == 0
    assert judge_subgroups(groups, 0.5, {}).outcome == "unmeasured"  # not a pass, however large the difference


def test_bands_where_one_says() -> None:
    (column,), _ = make_columns({"age": ["10", "40", "41", "", "70"]}, ["age=40,60"])
    assert column.groups == ("up to 40", "above 40 to 60", "above 60")
    assert column.member.tolist() == [0, 0, 1, -1, 2]
    with pytest.raises(UserError, match="Did you mean 'age'"):
        make_columns({"age": ["1", "2"]}, ["agee"])
    with pytest.raises(UserError, match="expected numbers"):
        make_columns({"age": ["1", "2"]}, ["age=old"])
    with pytest.raises(UserError, match="does not hold numbers"):
        make_columns({"sex": ["f", "m"]}, ["sex=3"])


def test_rare_words_are_put_together() -> None:
    words = [f"site {i}" for i in range(15) for _ in range(4)] + ["site 0"] * 5
    (column,), _ = make_columns({"site": words})
    assert len(column.groups) == 12
    assert column.groups[0] == "site 0"
    assert column.groups[-1] == "4 others"
    assert (column.member == 11).sum() == 16


def test_a_planted_failure_is_found_and_equal_groups_are_not_reported() -> None:
    draw = np.random.default_rng(0)
    sex = draw.integers(2, size=800)
    site = draw.integers(3, size=800)
    hit = draw.random(800) < np.where(site == 2, 0.65, 0.9)
    seen = made(hit)
    columns = [Column("sex", ("f", "m"), sex), Column("site", ("a", "b", "c"), site)]
    groups, comparisons = judge_groups(seen, columns, Bootstrap(seen.units, 200), permutations=1999)
    assert comparisons == 2 * (1 + 3)  # class accuracy and overconfidence; two groups are one question
    by_name = {(each.column, each.group): each.measure(ACCURACY) for each in groups}
    bad = by_name["site", "c"]
    assert bad is not None
    assert bad.p is not None
    assert bad.p < 0.01
    assert bad.difference.value == pytest.approx(hit[site == 2].mean() - hit[site != 2].mean())
    for name in ("f", "m"):
        fine = by_name["sex", name]
        assert fine is not None
        assert fine.p is not None
        assert fine.p > 0.05
        assert fine.detectable is not None
        assert 0 < fine.detectable < 0.3


def test_families_without_a_difference_are_rarely_reported() -> None:
    """Of forty families of twelve questions, at level 0.05 some two hold a false positive."""
    false = 0
    for seed in range(40):
        draw = np.random.default_rng([seed, 9])
        seen = made(draw.random(150) < 0.85)
        columns = [Column(f"c{j}", ("a", "b", "c"), draw.integers(3, size=150)) for j in range(2)]
        groups, _ = judge_groups(seen, columns, Bootstrap(seen.units, 2), permutations=199)
        false += any((each.p or 1) < 0.05 for group in groups for each in group.measures)
    assert false <= 6


def test_the_plain_p_value_is_that_of_an_exact_test() -> None:
    draw = np.random.default_rng(3)
    member = (np.arange(60) < 25).astype(np.int64)
    hit = draw.random(60) < np.where(member == 1, 0.6, 0.85)
    found = judged(made(hit), Column("g", ("a", "b"), member), permutations=9999)
    table = [[int((hit & (member == g)).sum()), int((~hit & (member == g)).sum())] for g in range(2)]
    exact = fisher_exact(table).pvalue
    measure = found["a"].measure(ACCURACY)
    assert measure.p is not None
    # Two questions, accuracy and overconfidence, that are the same but for the sign: Holm doubles.
    assert measure.p == pytest.approx(min(1, 2 * exact), abs=0.03)


def test_a_tiny_group_that_is_all_right_proves_nothing() -> None:
    hit = np.array([True] * 12 + [True, False] * 10 + [True] * 100)
    member = np.array([0] * 12 + [1] * 120)
    assert judged(made(hit), Column("g", ("a", "b"), member))["a"].measure(ACCURACY).p > 0.05


def test_hard_classes_explain_a_group() -> None:
    """The group errs because its class is hard: certain before, nothing beyond the classes."""
    draw = np.random.default_rng(1)
    classes = draw.integers(2, size=1000)
    group = (draw.random(1000) < np.where(classes == 1, 0.85, 0.15)).astype(np.int64)
    hit = draw.random(1000) < np.where(classes == 1, 0.6, 0.95)
    found = judged(made(hit, classes), Column("site", ("a", "b"), group))["b"].measure(ACCURACY)
    assert found.p < 0.01
    assert found.p_beyond_classes > 0.05
    assert abs(found.beyond_classes) < 0.05


def test_class_residuals_by_hand() -> None:
    found = class_residuals(np.array([1.0, 0.0, 1.0, np.nan]), np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(found, [0.5, -0.5, 0.0, np.nan])


def test_patients_are_exchanged_whole() -> None:
    units = ["a", "a", "b", "b", "c", "d", "d", "d"]
    exchange = BlockPermutation(units)
    generator = np.random.default_rng(0)
    seen = set()
    for _ in range(50):
        source = exchange.draw(generator)
        assert sorted(source) == list(range(8))
        assert source[4:].tolist() == [4, 5, 6, 7]  # nobody else has one or three images
        seen.add(tuple(source[:4].tolist()))
    assert seen == {(0, 1, 2, 3), (2, 3, 0, 1)}
    assert exchange.exchangeable == 4


def test_exchange_within_classes_only() -> None:
    classes = np.array([0, 1, 0, 1, 1, 0])
    exchange = BlockPermutation([str(i) for i in range(6)], classes)
    generator = np.random.default_rng(0)
    for _ in range(20):
        np.testing.assert_array_equal(classes[exchange.draw(generator)], classes)
    # A unit with both classes is exchanged with one that has both, whatever the order.
    paired = BlockPermutation(["a", "a", "b", "b"], np.array([0, 1, 1, 0]))
    assert {tuple(paired.draw(generator).tolist()) for _ in range(20)} == {(0, 1, 2, 3), (3, 2, 1, 0)}


def test_patients_with_many_images_are_not_many_witnesses() -> None:
    """One outcome a patient, repeated ten times: images would be certain, patients are not."""
    patients = 24
    outcome = np.array([i % 2 == 0 for i in range(12)] + [i % 3 != 0 for i in range(12)])
    hit, group = np.repeat(outcome, 10), np.repeat(np.arange(patients) < 12, 10).astype(np.int64)
    units = [f"p{i}" for i in np.repeat(np.arange(patients), 10)]
    column = Column("g", ("a", "b"), group)
    together = judged(made(hit, units=units), column)["a"].measure(ACCURACY)
    apart = judged(made(hit), column)["a"].measure(ACCURACY)
    assert apart.p < 0.05 < together.p


def test_few_are_shown_but_not_tested() -> None:
    hit = np.array([False] * 5 + [True] * 50)
    found = judged(made(hit), Column("g", ("a", "b"), np.array([0] * 5 + [1] * 50)))["a"].measure(ACCURACY)
    assert found.value.value == 0
    assert found.p is None
    assert found.detectable is None


def test_missing_words_are_on_no_side() -> None:
    hit = np.array([True] * 30 + [False] * 30 + [True, False] * 15)
    member = np.array([0] * 30 + [1] * 30 + [-1] * 30)
    found = judged(made(hit), Column("g", ("a", "b"), member))
    assert found["a"].images == 30
    assert found["a"].measure(ACCURACY).difference.value == 1


def test_measures_that_nobody_knows_are_left_out() -> None:
    seen = replace(made(np.ones(40)), concept_hit=np.full(40, 0.5), concept_confidence=np.full(40, 0.7))
    found = judged(seen, Column("g", ("a", "b"), np.arange(40) % 2))["a"]
    assert [each.measure for each in found.measures] == list(MEASURES)
    assert found.measure("concept overconfidence").value.value == pytest.approx(0.2)
    assert [
        each.measure for each in judged(made(np.ones(40)), Column("g", ("a", "b"), np.arange(40) % 2))["a"].measures
    ] == [MEASURES[0], MEASURES[2]]
