"""LaBo's selection: its measures by hand, its greedy choice against a naive one and against all choices."""

from itertools import combinations

import numpy as np
import pytest

from conceptlens.core.errors import UserError
from conceptlens.nn.selection.submodular import greedy, likelihood, mutual_information, negative_entropy, objective


def candidates(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    text = chance.normal(size=(n, 6))
    text /= np.linalg.norm(text, axis=1, keepdims=True)
    return chance.normal(size=n), text @ text.T


def naive(value: np.ndarray, likeness: np.ndarray, k: int, alpha: float, beta: float) -> list[int]:
    """Greedy by the definition: F of every set that is one larger, from scratch; of equals the first."""
    chosen: list[int] = []
    while len(chosen) < min(k, len(value)):
        left = [at for at in range(len(value)) if at not in chosen]
        reached = np.array([objective(np.array([*chosen, at]), value, likeness, alpha=alpha, beta=beta) for at in left])
        chosen.append(left[int(np.flatnonzero(reached > reached.max() - 1e-9)[0])])
    return chosen


def test_the_objective_by_hand() -> None:
    """α (0.2 + 0.3) + β (1 + 0.5 + 1): the first covers half of the second; a negative cosine covers nothing."""
    likeness = np.array([[1, 0.5, -0.4], [0.5, 1, 0.1], [-0.4, 0.1, 1]])
    value = np.array([0.2, 0.9, 0.3])
    chosen = np.array([0, 2])
    assert objective(chosen, value, likeness, alpha=2, beta=3) == pytest.approx(2 * 0.5 + 3 * 2.5)
    assert objective(chosen[:1], value, likeness, alpha=0, beta=1) == pytest.approx(1.5)
    assert objective(chosen[:0], value, likeness, alpha=2, beta=3) == 0


@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (1, 0), (0, 1), (0.1, 3)])
@pytest.mark.parametrize("seed", range(5))
def test_greedy_is_the_naive_greedy(seed: int, alpha: float, beta: float) -> None:
    value, likeness = candidates(70, seed)
    assert greedy(value, likeness, 25, alpha=alpha, beta=beta).tolist() == naive(value, likeness, 25, alpha, beta)


def test_close_to_the_best_of_all_choices() -> None:
    """1 − 1/e of the best is promised for a monotone objective, so D is made positive."""
    for seed in range(10):
        value, likeness = candidates(9, seed)
        value = value - value.min()
        best = max(objective(np.array(each), value, likeness, alpha=1, beta=1) for each in combinations(range(9), 4))
        reached = objective(greedy(value, likeness, 4), value, likeness, alpha=1, beta=1)
        assert (1 - 1 / np.e) * best <= reached <= best + 1e-9


def test_of_equals_the_first_and_never_one_twice() -> None:
    assert greedy(np.zeros(40), np.ones((40, 40)), 30).tolist() == list(range(30))
    assert sorted(greedy(np.zeros(3), np.eye(3), 50).tolist()) == [0, 1, 2]


def test_coverage_chooses_one_of_each_kind() -> None:
    """Two kinds of five texts that are nearly the same: discriminability alone takes one kind twice."""
    likeness = np.kron(np.eye(2), np.full((5, 5), 0.9)) + 0.1 * np.eye(10)
    value = np.array([1.0, 0.9, 0, 0, 0, 0.5, 0, 0, 0, 0])
    assert greedy(value, likeness, 2, beta=0).tolist() == [0, 1]
    assert greedy(value, likeness, 2).tolist() == [0, 5]


def test_discriminability_by_hand() -> None:
    """Shares ½, ½ of two classes and ¾, ¼."""
    similarity = np.array([[0.2, 0.3], [0.2, 0.1]])
    expected = [-np.log(2), 0.75 * np.log(0.75) + 0.25 * np.log(0.25)]
    assert negative_entropy(likelihood(similarity, "ratio")) == pytest.approx(expected)


def test_mutual_information_by_hand() -> None:
    """Each class has mass ½, shared among concepts by 2 : 3 and 2 : 1."""
    joint = [[0.2, 0.3], [1 / 3, 1 / 6]]
    first = 0.2 * np.log(0.2 / (0.5333333 * 0.5)) + 1 / 3 * np.log(1 / 3 / (0.5333333 * 0.5))
    second = 0.3 * np.log(0.3 / (0.4666667 * 0.5)) + 1 / 6 * np.log(1 / 6 / (0.4666667 * 0.5))
    assert np.sum(joint) == pytest.approx(1)
    found = mutual_information(np.array([[0.2, 0.3], [0.2, 0.1]]))
    assert found == pytest.approx([first, second], abs=1e-6)


def test_one_class_alone_is_most_discriminable() -> None:
    assert negative_entropy(np.array([[1.0, 1], [0, 1], [0, 1]])) == pytest.approx([0, -np.log(3)])


def test_a_softmax_of_similarities_may_be_negative() -> None:
    similarity = np.array([[-0.01, 0.3], [0.01, 0.1]])
    shares = likelihood(similarity, "softmax", 50.0)
    shares = shares / shares.sum(0)
    assert shares[0] == pytest.approx([1 / (1 + np.e), 1 / (1 + np.exp(-10))])
    with pytest.raises(UserError, match="likelihood: softmax"):
        likelihood(similarity, "ratio")
