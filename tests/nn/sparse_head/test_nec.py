"""Effective concepts: counts by hand, pruning, and the head at a wanted number."""

import pytest
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.nn.sparse_head import SparseHead, SparsePath, concepts_per_class, fit_path, nec
from conceptlens.nn.sparse_head.nec import keep_largest
from tests.nn.sparse_head.problems import problem

WEIGHTS = torch.tensor([[3.0, 0.0, -1.0, 0.5], [0.0, 0.0, 2.0, 0.0], [-4.0, 0.2, 0.1, 0.0]])


def head(weights: Tensor = WEIGHTS, scale: Tensor | None = None) -> SparseHead:
    mean = torch.tensor([1.0, 2.0, 3.0, 4.0])
    return SparseHead(weights, torch.zeros(3), 0.1, 1.0, 1e-5, mean, torch.ones(4) if scale is None else scale)


def test_counts() -> None:
    assert concepts_per_class(WEIGHTS).tolist() == [3, 1, 3]
    assert float(nec(WEIGHTS)) == pytest.approx(7 / 3)
    assert nec(torch.stack([WEIGHTS, torch.zeros(3, 4)])).tolist() == pytest.approx([7 / 3, 0])


def test_prunes_the_smallest_of_all_classes() -> None:
    pruned = head().prune(4 / 3)
    assert pruned.weights.tolist() == [[3, 0, -1, 0], [0, 0, 2, 0], [-4, 0, 0, 0]]
    assert pruned.nec == pytest.approx(4 / 3)
    assert pruned.pruned == 3
    # What went is replaced by its mean: 0.5 · 4 in class 0; 0.2 · 2 + 0.1 · 3 in class 2.
    torch.testing.assert_close(pruned.biases, torch.tensor([2.0, 0.0, 0.7]))
    average = head().mean[None]
    torch.testing.assert_close(pruned.logits(average), head().logits(average))


def test_prunes_each_class_alone() -> None:
    pruned = head().prune(2, "class")
    assert pruned.weights.tolist() == [[3, 0, -1, 0], [0, 0, 2, 0], [-4, pytest.approx(0.2), 0, 0]]
    assert pruned.concepts_per_class.tolist() == [2, 1, 2]


def test_size_is_judged_in_the_units_of_the_penalty() -> None:
    pruned = head(scale=torch.tensor([0.01, 1.0, 1.0, 0.0])).prune(1)
    assert pruned.weights.tolist() == [[0, 0, -1, 0], [0, 0, 2, 0], [0, pytest.approx(0.2), 0, 0]]


def test_head_at_a_wanted_number() -> None:
    x, y = problem(n=200, d=20, seed=3)
    path = fit_path(x, y, 4, steps=16, ratio=0.004)
    for wanted in (1, 2.5, 5, 10):
        found = path.at_nec(wanted)
        assert found.nec == wanted
        whole = path.at_nec(wanted, prune=False)
        assert whole.nec >= wanted
        assert whole.lam == found.lam
        assert (path.nec[path.lambdas > found.lam] < wanted).all()
        assert (whole.weights[found.weights != 0] == found.weights[found.weights != 0]).all()
        by_class = path.at_nec(wanted, per="class").concepts_per_class
        assert by_class.max() == int(wanted)
        assert wanted == 10 or by_class.min() == int(wanted)  # one class never uses ten
    short = fit_path(x, y, 4, steps=3, ratio=0.9)
    with pytest.raises(UserError, match=r"densest has .* smaller `ratio`"):
        short.at_nec(10)
    assert torch.equal(short.at_nec(10, or_fewer=True).weights, short.weights[2])
    for wanted in (0, 21):
        with pytest.raises(UserError, match="20 features"):
            keep_largest(path.weights[-1].abs(), wanted)
    with pytest.raises(UserError, match="'mean' or 'class'"):
        path.at_nec(5, per="row")  # type: ignore[arg-type]


def test_each_class_has_its_number_where_one_is_absent() -> None:
    x, y = problem(n=200, d=20, seed=3)
    path = fit_path(x, y + (y > 1), 5, steps=12, ratio=0.01)
    assert path.at_nec(4, per="class").concepts_per_class.tolist() == [4, 4, 0, 4, 4]


def test_accuracy_along_the_numbers() -> None:
    x, y = problem(n=400, d=30, seed=5)
    path = fit_path(x[:300], y[:300], 4, steps=30, until_nec=10)
    accuracy = path.accuracy_at(x[300:], y[300:], (20, 1, 5))
    assert list(accuracy) == [1, 5, 20]
    assert path.nec[-1] < 20
    assert accuracy[20] == path[-1].accuracy(x[300:], y[300:])
    by_hand = (path.at_nec(5).logits(x[300:]).argmax(-1) == y[300:]).float().mean()
    assert accuracy[5] == pytest.approx(float(by_hand))
    assert accuracy[20] > accuracy[1]
    with pytest.raises(UserError, match="At least one NEC"):
        path.accuracy_at(x, y, ())


def test_path_is_a_sequence_and_becomes_json() -> None:
    x, y = problem()
    path: SparsePath = fit_path(x, y, 4, steps=4)
    heads = list(path)
    assert len(heads) == len(path) == 4
    assert torch.equal(heads[2].weights, path.weights[2])
    assert path[-1].lam == heads[3].lam == float(path.lambdas[3])
    row = path.summary()[3]
    assert row == {
        "lambda": heads[3].lam,
        "nec": heads[3].nec,
        "objective": heads[3].objective,
        "relative_gap": heads[3].gap,
    }
