"""Sinkhorn against a plan worked out by hand, a naive loop, a linear program and finite differences."""

import math
import sys
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.core.gpu_kernels import failures
from conceptlens.nn.transport import sinkhorn as module
from conceptlens.nn.transport import sinkhorn_scaling
from conceptlens.nn.transport.sinkhorn import log_domain, plan_of, potentials, sinkhorn
from tests.interpreter import interpreted

EPS = (1.0, 0.1, 0.05, 0.01, 1e-3)


def problem(images: int = 3, rows: int = 12, columns: int = 9, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Cosine costs in [0, 2] and uneven marginals of no particular sum."""
    generator = torch.Generator().manual_seed(seed)
    unit = torch.nn.functional.normalize
    patches = unit(torch.randn(images, rows, 16, generator=generator), dim=-1)
    concepts = unit(torch.randn(columns, 16, generator=generator), dim=-1)
    a, b = (torch.rand(images, size, generator=generator) + 0.1 for size in (rows, columns))
    return 1 - patches @ concepts.T, a, b


def naive(cost: np.ndarray, a: np.ndarray, b: np.ndarray, eps: float, iterations: int) -> np.ndarray:
    """Cuturi's scaling of one image, written out."""
    kernel = np.exp(-cost / eps)
    v = np.ones(len(b))
    for _ in range(iterations):
        u = a / np.array([sum(kernel[i, j] * v[j] for j in range(len(b))) for i in range(len(a))])
        v = b / np.array([sum(kernel[i, j] * u[i] for i in range(len(a))) for j in range(len(b))])
    return u[:, None] * kernel * v[None, :]


@pytest.mark.parametrize("gradient", ["implicit", "unrolled"])
@pytest.mark.parametrize("eps", [1.0, 0.25, 0.01])
def test_two_by_two_by_hand(gradient: str, eps: float) -> None:
    """Swapping costs 1: by symmetry T_11 / T_12 = e^(1/ε), and each row sums to a half."""
    plan = sinkhorn(torch.tensor([[[0.0, 1.0], [1.0, 0.0]]]), eps=eps, gradient=gradient)  # type: ignore[arg-type]
    stays = 0.5 / (1 + math.exp(-1 / eps))
    torch.testing.assert_close(plan, torch.tensor([[[stays, 0.5 - stays], [0.5 - stays, stays]]]))


def test_the_same_steps_as_a_naive_loop() -> None:
    cost, a, b = (each.double() for each in problem())
    plan = sinkhorn(cost, a, b, eps=0.2, iterations=7)  # far from converged: the steps themselves are compared
    for image in range(len(cost)):
        share_a, share_b = (mass[image].numpy() / mass[image].sum().item() for mass in (a, b))
        expected = naive(cost[image].numpy(), share_a, share_b, 0.2, 7)
        np.testing.assert_allclose(plan[image].numpy(), expected, rtol=1e-10)


def test_with_little_entropy_it_is_the_linear_program() -> None:
    cost, a, b = (each.double()[0] for each in problem(1, 6, 5))
    a, b = a / a.sum(), b / b.sum()
    sums = np.concatenate([np.kron(np.eye(6), np.ones(5)), np.kron(np.ones(6), np.eye(5))])
    best = linprog(cost.flatten().numpy(), A_eq=sums, b_eq=torch.cat([a, b]).numpy()).fun
    plan = sinkhorn(cost[None], a, b, eps=2e-3, iterations=20_000, tolerance=1e-9)[0]
    assert float((plan * cost).sum()) == pytest.approx(best, abs=2e-3)
    torch.testing.assert_close(plan.sum(1), a, rtol=0, atol=1e-6)
    torch.testing.assert_close(plan.sum(0), b)


@pytest.mark.parametrize("eps", EPS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_type_and_strength(eps: float, dtype: torch.dtype) -> None:
    """Within float32 of a float64 loop on the same inputs, and finite; half types come out in float32."""
    cost, a, b = (each.to(dtype) for each in problem(2, 49, 40))
    plan = sinkhorn(cost, a, b, eps=eps)
    expected = sinkhorn(cost.double(), a.double(), b.double(), eps=eps, gradient="unrolled")
    assert plan.dtype == torch.float32
    assert plan.isfinite().all()
    assert float((plan - expected).abs().sum((1, 2)).max()) < 1e-6 / min(eps, 0.1)
    torch.testing.assert_close(plan.sum(1).double(), b.double() / b.double().sum(-1, keepdim=True), rtol=1e-3, atol=0)


def test_out_of_range_scales_take_their_steps_by_logsumexp() -> None:
    """The second image is hard: half of its mass must come by way of a row that has next to none."""
    cost = torch.tensor([[[0.0, 1.0], [1.0, 0.0]], [[0.0, 50.0], [1000.0, 0.0]]])
    log_a = torch.tensor([[0.5, 0.5], [1e-20, 1.0]]).log()
    log_b = torch.full((2, 2), 0.5).log()
    sizes: list[int] = []

    def counted(cost: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
        sizes.append(len(cost))
        return log_domain(cost, *rest)

    f, g = sinkhorn_scaling.solve(cost, log_a, log_b, 30, 0.0, counted)
    assert sizes[0] == 2
    assert set(sizes[1:]) == {1}
    true_f, true_g = log_domain(cost.double(), log_a.double(), log_b.double(), 30)
    torch.testing.assert_close(f.double(), true_f, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(g.double(), true_g, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("eps", [1.0, 0.1, 0.05, 0.02])
def test_implicit_gradients_are_the_unrolled_ones(eps: float) -> None:
    cost, a, b = problem(3, 49, 30)
    weights = torch.randn(cost.shape, generator=torch.Generator().manual_seed(1))
    found = []
    for gradient in ("implicit", "unrolled"):
        leaves = [each.clone().requires_grad_() for each in (cost, a, b)]
        plan = sinkhorn(*leaves, eps=eps, iterations=400, gradient=gradient)  # type: ignore[arg-type]
        (plan * weights).sum().backward()
        found.append([leaf.grad for leaf in leaves])
    for implicit, unrolled in zip(*found, strict=True):
        assert implicit is not None
        assert unrolled is not None
        assert float((implicit - unrolled).norm() / unrolled.norm()) < 1e-4


def test_implicit_gradients_are_finite_differences() -> None:
    inputs = tuple(each.double().requires_grad_() for each in problem(2, 4, 3))
    assert torch.autograd.gradcheck(lambda c, a, b: sinkhorn(c, a, b, eps=0.3, iterations=500), inputs, atol=1e-6)


@pytest.mark.parametrize("eps", EPS)
def test_gradients_are_finite_even_where_nothing_converges(eps: float) -> None:
    cost, a, b = (each.bfloat16().requires_grad_() for each in problem(2, 49, 40))
    (sinkhorn(cost, a, b, eps=eps, iterations=10) * cost).sum().backward()
    for leaf in (cost, a, b):
        assert leaf.grad is not None
        assert leaf.grad.isfinite().all()


def test_no_mass() -> None:
    """A patch and a concept without mass take no part, and nothing breaks."""
    cost, a, b = problem()
    a[:, 2], b[:, 4] = 0, 0
    leaf = cost.clone().requires_grad_()
    plan = sinkhorn(leaf, a, b, eps=0.1)
    (plan * torch.arange(9)).sum().backward()
    plan = plan.detach()
    assert float(plan[:, 2].max()) < 1e-15
    assert float(plan[:, :, 4].max()) < 1e-15
    rows, columns = [i for i in range(12) if i != 2], [j for j in range(9) if j != 4]
    left = sinkhorn(cost[:, rows][:, :, columns], a[:, rows], b[:, columns], eps=0.1)
    torch.testing.assert_close(plan[:, rows][:, :, columns], left, rtol=1e-4, atol=1e-7)
    assert leaf.grad is not None
    assert leaf.grad.isfinite().all()


def test_tolerance_stops_each_image_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    cost, a, b = problem(4, 20, 9)
    cost = cost * torch.tensor([0.1, 1.0, 1.0, 2.0]).view(4, 1, 1)  # the first needs the fewest iterations
    sizes: list[int] = []
    block = sinkhorn_scaling._block
    monkeypatch.setattr(
        sinkhorn_scaling,
        "_block",
        lambda c, *rest: sizes.append(len(c)) or block(c, *rest),  # type: ignore[func-returns-value]
    )
    plan = sinkhorn(cost, a, b, eps=0.05, iterations=5000, tolerance=1e-5)
    assert sizes[0] == 4
    assert sizes[-1] < 4
    torch.testing.assert_close(plan, sinkhorn(cost, a, b, eps=0.05, iterations=5000), rtol=2e-3, atol=1e-6)
    torch.testing.assert_close(plan.sum(2), a / a.sum(1, keepdim=True), rtol=1e-3, atol=0)


def test_one_image_alone_or_none() -> None:
    cost, a, b = problem()
    torch.testing.assert_close(sinkhorn(cost[1:2], a[1:2], b[1:2])[0], sinkhorn(cost, a, b)[1])
    assert sinkhorn(cost[:0]).shape == (0, 12, 9)


def test_autocast_changes_nothing() -> None:
    cost, a, b = problem()
    with torch.autocast("cpu", torch.bfloat16):
        leaf = cost.clone().requires_grad_()
        plan = sinkhorn(leaf, a, b)
    (plan**2).sum().backward()
    other = cost.clone().requires_grad_()
    (sinkhorn(other, a, b) ** 2).sum().backward()
    torch.testing.assert_close(plan, sinkhorn(cost, a, b), rtol=0, atol=0)
    torch.testing.assert_close(leaf.grad, other.grad)


@pytest.mark.slow
def test_a_compiler_takes_it_whole() -> None:
    cost, a, b = problem()
    compiled = torch.compile(lambda c: (sinkhorn(c, a, b) ** 2).sum(), backend="aot_eager", fullgraph=True)
    grads = []
    for call in (compiled, lambda c: (sinkhorn(c, a, b) ** 2).sum()):
        leaf = cost.clone().requires_grad_()
        call(leaf).backward()
        grads.append(leaf.grad)
    torch.testing.assert_close(*grads)


def test_what_is_exported_needs_no_operator_of_ours() -> None:
    class Solve(torch.nn.Module):
        def forward(self, cost: Tensor) -> Tensor:
            return sinkhorn(cost, iterations=3)

    cost, _, _ = problem()
    program = torch.export.export(Solve(), (cost,))
    assert "conceptlens" not in str(program.graph)
    torch.testing.assert_close(program.module()(cost), sinkhorn(cost, iterations=3))


KERNEL = """
import torch
from tests.nn.transport.test_sinkhorn import EPS, problem
from conceptlens.nn.transport import sinkhorn_triton
from conceptlens.nn.transport.sinkhorn import log_domain
sinkhorn_triton.TILE = 32  # several rows a tile, several tiles, both with a rest
for eps in EPS:
    cost, a, b = problem(2, 7, 5)
    cost, log_a, log_b = cost / eps, a.log_softmax(1), b.log_softmax(1)
    found = sinkhorn_triton.solve(cost, log_a, log_b, 6, 0.0)
    for value, true in zip(found, log_domain(cost.double(), log_a.double(), log_b.double(), 6)):
        torch.testing.assert_close(value.double(), true, rtol=0, atol=1e-6 / min(eps, 1))  # float32 of 2 / eps
slow, fast = (sinkhorn_triton.solve(10 * cost * eps, log_a, log_b, 40, limit)[1] for limit in (0.0, 1e-2))
assert 0 < (slow - fast).abs().max() < 0.1
print("agrees")
"""


@pytest.mark.slow
def test_the_kernel_line_by_line() -> None:
    assert interpreted(KERNEL) == "agrees"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("eps", EPS)
def test_the_kernel_on_a_gpu(eps: float) -> None:
    cost, a, b = problem(5, 196, 312)
    scaled, log_a, log_b = (each.cuda() for each in (cost / eps, a.log_softmax(1), b.log_softmax(1)))
    plan = plan_of(scaled, *potentials(scaled, log_a, log_b, 100))
    assert not failures
    expected = plan_of(scaled.double(), *log_domain(scaled.double(), log_a.double(), log_b.double(), 100))
    assert float((plan - expected).abs().sum((1, 2)).max()) < 1e-6 / min(eps, 0.1)


def test_a_kernel_that_fails_is_reported_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    cost, a, b = problem()
    log_a, log_b = a.log_softmax(1), b.log_softmax(1)
    monkeypatch.delitem(failures, module.KERNEL, raising=False)
    monkeypatch.setattr(module, "_on_gpu", lambda cost: True)
    monkeypatch.setitem(sys.modules, "conceptlens.nn.transport.sinkhorn_triton", None)  # as where it cannot be imported
    with pytest.warns(UserWarning, match="torch takes over"):
        found = potentials(cost, log_a, log_b, 5)
    assert module.KERNEL in failures
    monkeypatch.delitem(failures, module.KERNEL)
    for value, true in zip(found, log_domain(cost, log_a, log_b, 5), strict=True):
        torch.testing.assert_close(value, true)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"cost": torch.zeros(2, 3)}, "images, rows, columns"),
        ({"cost": torch.zeros(2, 3, 4), "a": torch.ones(2, 4)}, r"expected a of shape \(2, 3\)"),
        ({"cost": torch.zeros(2, 3, 4), "b": torch.ones(3)}, r"expected b of shape \(2, 4\)"),
        ({"cost": torch.zeros(2, 3, 4), "eps": 0.0}, "eps above 0"),
        ({"cost": torch.zeros(2, 3, 4), "iterations": 0}, "at least 1 iteration"),
    ],
)
def test_bad_input(given: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        sinkhorn(**given)  # type: ignore[arg-type]
