"""Matches that were planted are sure, matches in noise are not, and the best match is the best of all."""

from itertools import permutations

import numpy as np
import pytest

from conceptlens.evaluation.codebook.matching import (
    assign,
    by_co_assignment,
    by_labels,
    by_text,
    correlations,
    farthest,
    lifts,
    slot_columns,
)


def units(n: int) -> list[str]:
    return [str(place) for place in range(n)]


def test_the_match_is_the_best_of_all() -> None:
    draw = np.random.default_rng(0)
    for _ in range(20):
        table = draw.normal(size=(4, 5))
        best = max(sum(table[row, column] for row, column in enumerate(order)) for order in permutations(range(5), 4))
        assert sum(table[pair] for pair in assign(table)) == pytest.approx(best)


def test_lifts_by_hand() -> None:
    mass = np.array([[30.0, 10.0], [10.0, 50.0]])
    share = np.array([0.4, 0.6])
    expected = np.log((mass + share) / (mass.sum(1, keepdims=True) + 1) / share)
    np.testing.assert_allclose(lifts(mass), expected)
    np.testing.assert_allclose(
        lifts(np.array([[0.0, 0.0], [1.0, 3.0]]))[0], 0, atol=1e-12
    )  # nothing seen, nothing said


def test_planted_co_assignment_is_found_and_noise_is_not() -> None:
    draw = np.random.default_rng(1)
    base = 100 * np.ones((10, 10))
    columns = [(f"concept {k}", [k]) for k in range(10)]

    def permuted(mass: np.ndarray) -> np.ndarray:
        """What codes and slots have in all, without what they have together."""
        apart = np.outer(mass.sum(1), mass.sum(0)) / mass.sum()
        return apart + draw.normal(0, 5, (39, 10, 10))

    strong = base + draw.normal(0, 5, (10, 10))
    strong[0, 2] += 1500
    strong[3, 1] += 1500
    found = by_co_assignment(strong, permuted(strong), columns)
    sure = {each.code: each.concept for each in found.matches if each.sure}
    assert sure == {0: "concept 2", 3: "concept 1"}
    assert found.p is not None
    assert found.p < 0.05
    weak = base + draw.normal(0, 5, (10, 10))
    weak[0, 2] += 40  # beyond chance, and yet too little for a name
    assert by_co_assignment(weak, permuted(weak), columns).matches[0].p < 0.05
    assert not any(each.sure for each in by_co_assignment(weak, permuted(weak), columns).matches)
    noise = base + draw.normal(0, 5, (10, 10))
    assert not any(each.sure for each in by_co_assignment(noise, permuted(noise), columns).matches)


def test_spare_slots_count_in_the_shares_but_are_no_concept() -> None:
    mass = np.array([[10.0, 0.0, 90.0], [0.0, 10.0, 0.0]])
    found = by_co_assignment(mass, np.zeros((0, 2, 3)), [("a", [0]), ("b", [1])])
    assert {each.concept for each in found.matches} == {"a", "b"}
    assert found.p is None


def test_who_speaks_through_a_slot() -> None:
    names = ["shape: a", "shape: b", "colour: c"]
    group_of = np.array([0, 0, 1])
    assert slot_columns(names, group_of, ["shape", "colour"], np.array([0, 1, 2])) == [
        ("shape: a", [0]),
        ("shape: b", [1]),
        ("colour: c", [2]),
    ]
    assert slot_columns(names, group_of, ["shape", "colour"], np.array([0, 0, 1])) == [("shape", [0]), ("colour", [1])]
    assert slot_columns(names, group_of, ["shape", "colour"], np.array([0, 0, 0])) == []


def test_correlations_against_numpy() -> None:
    draw = np.random.default_rng(2)
    shares, held = draw.random((50, 3)), (draw.random((50, 2)) < 0.4).astype(float)
    known = (draw.random((50, 2)) < 0.8).astype(float)
    found = correlations(shares, held, known)(np.arange(50))
    for m in range(3):
        for k in range(2):
            rows = known[:, k] > 0
            assert found[m, k] == pytest.approx(np.corrcoef(shares[rows, m], held[rows, k])[0, 1])
    assert (correlations(shares, np.ones((50, 1)), np.ones((50, 1)))(np.arange(50)) == 0).all()


def test_planted_labels_are_found_and_noise_is_not() -> None:
    draw = np.random.default_rng(3)
    labels = (draw.random((120, 5)) < 0.5).astype(np.int8)
    counts = draw.integers(5, 15, (120, 4))
    counts[:, 1] += 8 * labels[:, 3]
    names = [f"c{k}" for k in range(5)]
    found = by_labels(counts.astype(np.int32), labels, units(120), names)
    assert found is not None
    assert {each.code: each.concept for each in found.matches if each.sure} == {1: "c3"}
    noise = by_labels(draw.integers(5, 15, (120, 4)).astype(np.int32), labels, units(120), names)
    assert noise is not None
    assert not any(each.sure for each in noise.matches)
    assert by_labels(counts.astype(np.int32), np.full((120, 5), -1, np.int8), units(120), names) is None


def test_noise_is_seldom_sure() -> None:
    """Of thirty tables of noise at most a few hold a sure match."""
    sure = 0
    for seed in range(30):
        draw = np.random.default_rng([seed, 4])
        labels = (draw.random((60, 6)) < 0.5).astype(np.int8)
        counts = draw.integers(0, 20, (60, 6)).astype(np.int32)
        found = by_labels(counts, labels, units(60), [str(k) for k in range(6)], permutations=59)
        assert found is not None
        sure += any(each.sure for each in found.matches)
    assert sure <= 5


def test_the_farthest_of_each_table_counts() -> None:
    chance = np.zeros((4, 1, 2))
    chance[:, 0, 0] = [-1, 1, -1, 1]
    found = farthest(np.array([[3.0, 5.0]]), chance)
    assert found[0, 0] == pytest.approx(1 / 5)  # three deviations out: no table of four comes near
    assert found[0, 1] == 1  # a pair that chance never moves says nothing


def test_text_against_single_patches() -> None:
    draw = np.random.default_rng(5)
    patches = draw.normal(0, 1, (400, 3))
    readings = np.array([[0.1, 0.0, 9.0], [0.0, 0.2, 0.1]])
    found = by_text(readings, patches, ["a", "b", "c"])
    assert {each.code: each.concept for each in found.matches if each.sure} == {0: "c"}
