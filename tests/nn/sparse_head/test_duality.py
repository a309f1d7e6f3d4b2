"""The gap bounds what it says it bounds, is small at the optimum, and its pieces are what the derivation needs."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from conceptlens.nn.sparse_head.duality import _mixing, duality_gap
from conceptlens.nn.sparse_head.objective import Penalty, evaluate, null_point
from conceptlens.nn.sparse_head.rows import Rows
from tests.nn.sparse_head.problems import objective, problem, reference, standardized


def rows_of(x: Tensor, y: Tensor, classes: int = 4) -> Rows:
    return Rows(x, y, classes, standardize=False)


@pytest.mark.parametrize("alpha", [0.99, 0.3, 1.0])
@pytest.mark.parametrize("lam", [0.2, 0.01])
def test_never_below_the_true_distance(alpha: float, lam: float) -> None:
    x, y = problem()
    x = standardized(x)
    rows, penalty = rows_of(x, y), Penalty(lam, alpha)
    w, b, best = reference(x, y, 4, lam, alpha)
    optimum = torch.tensor(np.concatenate([w, b[:, None]], 1))
    generator = torch.Generator().manual_seed(0)
    for size in (0.0, 1e-3, 1e-2, 0.1, 1.0):
        for _ in range(5):
            coef = optimum + size * torch.randn(optimum.shape, dtype=torch.float64, generator=generator)
            gap = duality_gap(rows, evaluate(rows, coef), penalty)
            assert gap >= objective(coef[:, :-1], coef[:, -1], x, y, lam, alpha) - best - 1e-9
    coef = optimum.clone()
    coef[0, -1] += 0.5  # only a bias is wrong
    assert duality_gap(rows, evaluate(rows, coef), penalty) >= objective(w, coef[:, -1], x, y, lam, alpha) - best


def test_small_at_the_optimum_and_shrinks_towards_it() -> None:
    x, y = problem()
    x = standardized(x)
    rows, penalty = rows_of(x, y), Penalty(0.02, 0.99)
    w, b, best = reference(x, y, 4, 0.02, 0.99)
    optimum = torch.tensor(np.concatenate([w, b[:, None]], 1))
    away = null_point(rows).coef - optimum
    gaps = [duality_gap(rows, evaluate(rows, optimum + t * away), penalty) for t in (1.0, 0.1, 0.01, 0.001, 0.0)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-5 * best


def test_equals_primal_minus_dual_written_out() -> None:
    """One feature, x = ±1, two rows of different classes: everything by hand."""
    x, y = torch.tensor([[1.0], [-1.0]], dtype=torch.float64), torch.tensor([0, 1])
    rows, penalty = rows_of(x, y, 2), Penalty(0.2, 0.5)
    w = 0.3  # of class 0, minus that of class 1; both rows get the same probability of their own class
    coef = torch.tensor([[w, 0.0], [-w, 0.0]], dtype=torch.float64)
    p = 1 / (1 + math.exp(-2 * w))
    primal = -math.log(p) + 0.2 * (0.5 * 2 * w + 0.25 * 2 * w * w)
    entropy = {}
    for scale in (1.0, min(1.0, 0.1 / (1 - p)), (1 + min(1.0, 0.1 / (1 - p))) / 2):
        q = scale * p + 1 - scale
        g = scale * (1 - p)  # |G| of either class
        entropy[scale] = -q * math.log(q) - (1 - q) * math.log(1 - q) - 2 * max(g - 0.1, 0) ** 2 / (2 * 0.1)
    assert duality_gap(rows, evaluate(rows, coef), penalty) == pytest.approx(primal - max(entropy.values()), rel=1e-9)


def test_zero_where_nothing_is_the_optimum() -> None:
    x, y = problem(seed=2)
    rows = rows_of(standardized(x), y)
    assert duality_gap(rows, null_point(rows), Penalty(10.0, 0.99)) < 1e-12


def test_mixing_meets_the_shares_and_stays_a_distribution() -> None:
    wanted, found = torch.tensor([0.5, 0.3, 0.2]).double(), torch.tensor([0.2, 0.6, 0.2]).double()
    mixing = _mixing(wanted, found)
    torch.testing.assert_close(found @ mixing, wanted)
    torch.testing.assert_close(mixing.sum(1), torch.ones(3).double())
    assert (mixing >= 0).all()
    # By hand: class 1 keeps half and gives the rest to class 0, the only one that lacks.
    torch.testing.assert_close(mixing, torch.tensor([[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]]).double())
    torch.testing.assert_close(_mixing(wanted, wanted), torch.eye(3).double())


def test_gives_up_early_above_the_limit() -> None:
    x, y = problem()
    rows, penalty = rows_of(standardized(x), y), Penalty(0.01, 0.99)
    start = null_point(rows)
    gap = duality_gap(rows, start, penalty)
    assert duality_gap(rows, start, penalty, limit=gap / 2) == math.inf
    assert duality_gap(rows, start, penalty, limit=gap * 1.01) == gap


def test_chunks_change_nothing() -> None:
    x, y = problem()
    penalty = Penalty(0.02, 0.99)
    whole, parts = Rows(x, y, 4), Rows(x, y, 4, chunk_rows=17)
    coef = torch.randn(4, 13, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) / 5
    a, b = evaluate(whole, coef), evaluate(parts, coef)
    torch.testing.assert_close(a.gradient, b.gradient)
    assert a.loss == pytest.approx(b.loss)
    assert duality_gap(whole, a, penalty) == pytest.approx(duality_gap(parts, b, penalty))
