"""The permutation test against all swaps, Holm's correction against hand-worked numbers."""

from itertools import product

import numpy as np
import pytest

from conceptlens.stats.paired_permutation import holm, p_values, unit_differences
from conceptlens.stats.questions import Decided


def test_equals_all_swaps() -> None:
    parts = np.random.default_rng(1).normal(0.4, 1, size=(10, 3))
    signs = np.array(list(product([-1, 1], repeat=10)))
    expected = (np.abs(signs @ parts) >= np.abs(parts.sum(0)) - 1e-12).mean(0)
    found = p_values(parts, permutations=40_000)
    assert found == pytest.approx(expected, abs=0.012)  # four standard errors


def test_no_difference_has_p_one_and_certain_ones_the_smallest() -> None:
    parts = np.stack([np.zeros(30), np.ones(30)], axis=1)
    assert p_values(parts, permutations=199).tolist() == [1.0, 1 / 200]


def test_images_of_a_unit_and_seeds_are_swapped_together() -> None:
    truth = np.zeros(4, np.int64)
    first = [
        Decided(np.array([0, 0, 0, 1]), truth, balanced=False),
        Decided(np.array([0, 0, 0, 0]), truth, balanced=False),
    ]
    second = [
        Decided(np.array([1, 0, 1, 1]), truth, balanced=False),
        Decided(np.array([1, 0, 0, 0]), truth, balanced=False),
    ]
    parts = unit_differences(first, second, np.array(["a", "a", "b", "b"]))
    assert parts == pytest.approx([(1 + 1) / 4 / 2, 1 / 4 / 2])  # unit a: image 1 of both seeds; b: image 3 of one


def test_holm_by_hand() -> None:
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.4, 0.5])) == pytest.approx([0.8, 0.8])
    assert holm([0.6, 0.6]).tolist() == [1, 1]
    assert holm(np.array([0.2])) == pytest.approx([0.2])
    assert holm(np.array([0.9, 0.8])) == pytest.approx([1.0, 1.0])
