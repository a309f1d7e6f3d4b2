"""The parts of a step: gradient, curvature, the model's minimizer, the shift that the loss cannot see."""

import pytest
import torch
from torch import Tensor

from conceptlens.nn.sparse_head.common_shift import remove_common_shift
from conceptlens.nn.sparse_head.curvature import Curvature, _largest_eigenvalue
from conceptlens.nn.sparse_head.model_step import model_step
from conceptlens.nn.sparse_head.objective import Penalty, curvature, evaluate, null_point
from conceptlens.nn.sparse_head.rows import Rows
from tests.nn.sparse_head.problems import objective, problem


@pytest.fixture
def rows() -> Rows:
    x, y = problem(n=60, d=5, classes=3)
    return Rows(x, y, 3)


def random_coef(seed: int = 0, scale: float = 0.5) -> Tensor:
    return scale * torch.randn(3, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def loss(rows: Rows, coef: Tensor) -> Tensor:
    (chunk,) = rows.chunks()
    logits = chunk.x @ coef[:, :-1].T + coef[:, -1]
    return torch.nn.functional.cross_entropy(logits, chunk.labels)


def test_loss_and_gradient(rows: Rows) -> None:
    coef = random_coef().requires_grad_()
    expected = loss(rows, coef)
    (gradient,) = torch.autograd.grad(expected, coef)
    point = evaluate(rows, coef.detach())
    assert point.loss == pytest.approx(expected.item())
    torch.testing.assert_close(point.gradient, gradient)
    (chunk,) = rows.chunks()
    mine = point.objective(Penalty(0.1, 0.7))
    assert mine == pytest.approx(objective(point.coef[:, :-1], point.coef[:, -1], chunk.x, chunk.labels, 0.1, 0.7))


def test_closed_form_of_the_null_point(rows: Rows) -> None:
    point = null_point(rows)
    again = evaluate(rows, point.coef)
    assert point.loss == pytest.approx(again.loss)
    torch.testing.assert_close(point.gradient, again.gradient)


def test_curvature_is_the_hessian_where_all_rows_are_predicted_alike(rows: Rows) -> None:
    coef = null_point(rows).coef
    k, s, prior = curvature(rows, coef)
    of_loss = torch.func.hessian(lambda flat: loss(rows, flat.view(3, 6)))
    hessian = of_loss(coef.flatten())
    torch.testing.assert_close(torch.kron(k, s), hessian, atol=1e-9, rtol=1e-6)
    assert torch.linalg.eigvalsh(torch.diag(prior) - k).min() > -1e-9


def test_model_knows_the_last_step(rows: Rows) -> None:
    """BFGS: B s = y for the newest pair, and B stays positive."""
    point = evaluate(rows, random_coef())
    known = Curvature(curvature(rows, point.coef))
    for seed in range(1, 25):  # more than it remembers
        new = evaluate(rows, random_coef(seed))
        step, change = new.coef - point.coef, new.gradient - point.gradient
        known.learn(step, change)
        torch.testing.assert_close(known.model().apply(step), change, atol=1e-8, rtol=1e-6)
        point = new
    model = known.model()
    dense = torch.stack([model.apply(unit.view(3, 6)).flatten() for unit in torch.eye(18).double()])
    torch.testing.assert_close(dense, dense.T, atol=1e-8, rtol=1e-6)
    assert torch.linalg.eigvalsh(dense).min() > -1e-8


def test_largest_eigenvalue_is_a_close_upper_bound() -> None:
    matrix = torch.randn(40, 30, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float32, torch.float64):
        gram = 1e-4 * (matrix @ matrix.T).to(dtype)
        exact = float(torch.linalg.eigvalsh(gram)[-1])
        assert exact * (1 - 1e-5) <= _largest_eigenvalue(gram) <= exact * 40 ** (1 / 64) * (1 + 1e-5)


def test_model_step_minimizes_the_model(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conceptlens.nn.sparse_head.model_step.STEPS", 5000)
    monkeypatch.setattr("conceptlens.nn.sparse_head.model_step.ACCURACY", 1e-9)
    penalty, start = Penalty(0.05, 0.9), evaluate(rows, random_coef())
    known = Curvature(curvature(rows, start.coef))
    other = evaluate(rows, random_coef(1))
    known.learn(other.coef - start.coef, other.gradient - start.gradient)
    model = known.model()
    found = model_step(start, model, penalty)
    # Plain proximal gradient, many steps.
    u, length = start.coef.clone(), 1 / float(model.bend.max() * 3)
    for _ in range(20000):
        u = u - length * (start.gradient + model.apply(u - start.coef))
        w = u[:, :-1]
        u[:, :-1] = (w.abs() - length * penalty.l1).clamp(min=0) * w.sign() / (1 + length * penalty.ridge)

    def value(coef: Tensor) -> float:
        step = coef - start.coef
        return float((start.gradient * step).sum() + (step * model.apply(step)).sum() / 2) + penalty.of(coef)

    assert value(found) == pytest.approx(value(u), abs=1e-9)
    torch.testing.assert_close(found[:, :-1], u[:, :-1], atol=1e-4, rtol=0)
    assert ((found[:, :-1] == 0) == (u[:, :-1] == 0)).all()


@pytest.mark.parametrize("classes", [2, 5, 6])
@pytest.mark.parametrize("alpha", [0.99, 0.3, 1.0])
def test_no_other_shift_is_cheaper(classes: int, alpha: float) -> None:
    penalty = Penalty(0.1, alpha)
    coef = torch.randn(classes, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.5
    best = remove_common_shift(coef, penalty)
    moved = coef - best
    assert (moved[:, -1] == 0).all()  # the bias is not penalized
    torch.testing.assert_close(moved[:, :-1], moved[:1, :-1].expand(classes, -1))
    for shift in torch.linspace(-3, 3, 601, dtype=torch.float64):
        other = best.clone()
        other[:, :-1] += shift
        assert penalty.of(best) <= penalty.of(other) + 1e-9


def test_sparse_weights_are_not_shifted() -> None:
    coef = torch.tensor([[1.0, 0.0, 0.3], [0.0, -2.0, 0.1], [0.0, 0.0, -0.4]])
    assert torch.equal(remove_common_shift(coef, Penalty(0.1, 0.99)), coef)
