"""Entropic optimal transport between two sets of points, for a batch of cost matrices at once.

    T = argmin ⟨T, C⟩ − ε H(T)   over T ≥ 0 with row sums a and column sums b

M. Cuturi, Sinkhorn Distances: Lightspeed Computation of Optimal Transport, NeurIPS 2013. The solution has the form
T_ij = exp((f_i + g_j − C_ij) / ε); each iteration makes the rows right by f, then the columns by g:

    f_i ← ε log a_i − ε log Σ_j exp((g_j − C_ij) / ε)        g_j ← ε log b_j − ε log Σ_i exp((f_i − C_ij) / ε)

All solvers here take exactly these steps and differ only in how they compute them. Inside, potentials and costs are in
units of ε, and at least in float32 whatever comes in. On a GPU a kernel of our own does all iterations at once; where
it cannot be had, a warning says why, and torch operations take over.
"""

import math
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from conceptlens.core.errors import UserError
from conceptlens.core.gpu_kernels import attempt
from conceptlens.nn.transport import sinkhorn_scaling
from conceptlens.nn.transport.sinkhorn_adjoint import adjoint, adjoint_operator

KERNEL = "Sinkhorn"
LEAST_MASS = 1e-20  # a marginal of zero counts as this much: its logarithm stays finite


def sinkhorn(
    cost: Tensor,
    a: Tensor | None = None,
    b: Tensor | None = None,
    *,
    eps: float = 0.1,
    iterations: int = 100,
    tolerance: float = 0.0,
    gradient: Literal["implicit", "unrolled"] = "implicit",
) -> Tensor:
    """The transport plan (B, L, K), of total mass 1. Its column sums are b exactly, its row sums are a once converged.

    Args:
        cost: Cost (B, L, K) of any floating type; half types are computed in float32, which is what comes out.
        a: Mass of each row, (B, L) or (L,), not negative; brought to a sum of 1. Even if not given.
        b: Mass of each column, (B, K) or (K,), likewise.
        eps: Strength of the entropy, in units of the cost. The smaller, the sparser the plan and the more iterations.
        iterations: At most so many.
        tolerance: An image is done when an iteration changes no column by more than this share of its mass; 0 does all
            iterations. Only the implicit gradient stops early.
        gradient: By the implicit function theorem, in memory that does not grow with the iterations and exact for a
            converged plan, or `unrolled` through every iteration, exact for any plan.
    """
    if cost.ndim != 3:
        raise UserError(f"sinkhorn: expected a cost of shape (images, rows, columns), found {tuple(cost.shape)}.")
    if eps <= 0 or iterations < 1 or tolerance < 0:
        raise UserError(
            "sinkhorn: expected eps above 0, at least 1 iteration and a tolerance of 0 or more, found "
            f"eps {eps}, {iterations} iterations, tolerance {tolerance}."
        )
    dtype = torch.promote_types(cost.dtype, torch.float32)
    with torch.autocast(cost.device.type, enabled=False):
        scaled = cost.to(dtype) / eps
        log_a = _log_marginal("a", a, cost, 1, dtype)
        log_b = _log_marginal("b", b, cost, 2, dtype)
        if gradient == "unrolled" or torch.compiler.is_exporting():  # what is exported must run without this package
            return plan_of(scaled, *log_domain(scaled, log_a, log_b, iterations))
        plan: Tensor = ImplicitPlan.apply(scaled, log_a, log_b, iterations, tolerance)
        return plan


def _log_marginal(name: str, given: Tensor | None, cost: Tensor, side: int, dtype: torch.dtype) -> Tensor:
    """ln of a marginal that sums to 1, (B, L) or (B, K)."""
    size = cost.shape[side]
    if given is None:
        return torch.full((len(cost), size), -math.log(max(size, 1)), dtype=dtype, device=cost.device)
    if given.shape not in ((size,), (len(cost), size)):
        raise UserError(
            f"sinkhorn: expected {name} of shape ({len(cost)}, {size}) or ({size},) for a cost of shape "
            f"{tuple(cost.shape)}, found {tuple(given.shape)}."
        )
    mass = given.to(dtype).expand(len(cost), size)
    return (mass / mass.sum(-1, keepdim=True)).clamp_min(LEAST_MASS).log()


def plan_of(cost: Tensor, f: Tensor, g: Tensor) -> Tensor:
    """T from potentials, all in units of ε."""
    return (f.unsqueeze(2) + g.unsqueeze(1) - cost).exp()


def log_domain(
    cost: Tensor, log_a: Tensor, log_b: Tensor, iterations: int, start: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Potentials f (B, L) and g (B, K) by logsumexp, the reference for all other solvers; autograd can follow it.

    Args:
        cost: In units of ε.
        log_a: ln a, (B, L).
        log_b: ln b, (B, K).
        iterations: How many.
        start: g to begin with; zero if not given.
    """
    f, g = torch.zeros_like(log_a), torch.zeros_like(log_b) if start is None else start
    for _ in range(iterations):
        f = log_a - torch.logsumexp(g.unsqueeze(1) - cost, 2)
        g = log_b - torch.logsumexp(f.unsqueeze(2) - cost, 1)
    return f, g


def _on_gpu(cost: Tensor) -> bool:
    return cost.is_cuda and cost.numel() > 0


def _by_kernel(
    cost: Tensor, log_a: Tensor, log_b: Tensor, iterations: int, tolerance: float
) -> tuple[Tensor, Tensor] | None:
    """The potentials by the GPU kernel, or None where there is none for this cost, device or installation."""

    def work() -> tuple[Tensor, Tensor] | None:
        from conceptlens.nn.transport import sinkhorn_triton

        return sinkhorn_triton.solve(cost, log_a, log_b, iterations, tolerance) if sinkhorn_triton.fits(cost) else None

    return attempt(KERNEL, work) if _on_gpu(cost) else None


def potentials(
    cost: Tensor, log_a: Tensor, log_b: Tensor, iterations: int, tolerance: float = 0.0
) -> tuple[Tensor, Tensor]:
    """As `log_domain`, by the fastest way there is for this device and type."""
    found = _by_kernel(cost, log_a, log_b, iterations, tolerance)
    if found is not None:
        return found
    if cost.is_cuda and torch.cuda.is_current_stream_capturing():  # scaling looks at numbers, which a graph cannot
        return log_domain(cost, log_a, log_b, iterations)
    return sinkhorn_scaling.solve(cost, log_a, log_b, iterations, tolerance, log_domain)


@torch.library.custom_op("conceptlens::sinkhorn", mutates_args=())
def potentials_operator(
    cost: Tensor, log_a: Tensor, log_b: Tensor, iterations: int, tolerance: float
) -> tuple[Tensor, Tensor]:
    """`potentials` as one piece that a compiler takes as it is; its first call imports for more than a second."""
    with torch.autocast(cost.device.type, enabled=False):
        return potentials(cost, log_a, log_b, iterations, tolerance)


@potentials_operator.register_fake
def _(cost: Tensor, log_a: Tensor, log_b: Tensor, iterations: int, tolerance: float) -> tuple[Tensor, Tensor]:
    return torch.empty_like(log_a), torch.empty_like(log_b)


class ImplicitPlan(torch.autograd.Function):
    """The plan, and its gradient from the plan alone.

    Differentiating T1 = a, Tᵀ1 = b at the solution gives a linear system in the changes of f and g. With G = ∂L/∂T and
    its transposed system  [diag(a) T; Tᵀ diag(b)] (α, β) = ((G∘T)1, (G∘T)ᵀ1):

        ∂L/∂C_ij = −T_ij (G_ij − α_i − β_j) / ε        ∂L/∂a = α        ∂L/∂b = β
    """

    @staticmethod
    def forward(ctx: Any, cost: Tensor, log_a: Tensor, log_b: Tensor, iterations: int, tolerance: float) -> Tensor:
        solve = potentials_operator if torch.compiler.is_compiling() else potentials
        plan = plan_of(cost, *solve(cost, log_a, log_b, iterations, tolerance))
        ctx.save_for_backward(plan)
        return plan

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (plan,) = ctx.saved_tensors
        with torch.autocast(plan.device.type, enabled=False):
            solve = adjoint_operator if torch.compiler.is_compiling() else adjoint
            alpha, beta = solve(plan, grad.to(plan.dtype))
            inner = plan * (alpha.unsqueeze(2) + beta.unsqueeze(1) - grad)
            # ∂/∂ ln a = a ∂/∂a
            return inner, alpha * plan.sum(2), beta * plan.sum(1), None, None
