"""A certificate of optimality: the duality gap.

Write the loss of row i as s_i f_i(z), f_i(z) = log Σ_c exp z_c − z_{y_i}. Its conjugate is f_i*(v) = Σ_c q_c log q_c
where q = v + e_{y_i} lies in the simplex, and ∞ elsewhere. The penalty's is Ω*(u) = (|u| − λα)₊² / (2λ(1 − α)), entry
by entry. Fenchel's dual of P is therefore a problem over class probabilities q_i, one distribution for each row:

    D(q) = Σ_i s_i H(q_i) − Σ_cj Ω*(G_cj),    G = Σ_i s_i (q_i − e_{y_i}) x_iᵀ,

subject to Σ_i s_i q_i = π, the shares of the classes, because the bias is free. Any such q gives min P ≥ D(q), so that
P − D(q) bounds how far W is from optimal. With p_i = softmax(W x_i + b) it is a sum of terms that are never negative:

    P(W, b) − D(q) = Σ_i s_i KL(q_i ‖ p_i) + Σ_cj [ Ω(W_cj) + Ω*(G_cj) + W_cj G_cj ].

A q is made from p in two steps, both of which keep it a distribution.
  1. Bias. Unless b is optimal, m = Σ s_i p_i differs from π. A class with too much (m_c > π_c) keeps the share π_c/m_c
     of its probability in every row; what it gives up goes to the classes with too little, in proportion to what they
     lack. That is q_i = Mᵀ p_i with one stochastic matrix M, meets π exactly, and costs no new product with the rows:
     Σ s_i q_i x_iᵀ = Mᵀ Σ s_i p_i x_iᵀ.
  2. Scale. κ q_i + (1 − κ) e_{y_i} has κG for G. κ = min(1, λα / max|G|) makes Ω* vanish, as it must for α = 1. With
     α < 1 every κ is allowed; 1, that one and the middle are tried, and the smallest gap counts.
"""

import torch
from torch import Tensor

from conceptlens.nn.sparse_head.objective import Penalty, Point, log_probabilities
from conceptlens.nn.sparse_head.rows import Rows


def duality_gap(rows: Rows, point: Point, penalty: Penalty, *, limit: float = torch.inf) -> float:
    """An upper bound of P(W, b) − min P, from one pass over the rows.

    Args:
        rows: The training rows.
        point: Coefficients with their gradient.
        penalty: λ and α.
        limit: Give up, without the pass, where the gap is certain to exceed this.

    Returns:
        The gap, or infinity where it exceeds `limit`.
    """
    mixing = _mixing(rows.target[:, -1].double(), (point.gradient[:, -1] + rows.target[:, -1]).double())
    target = rows.target[:, :-1].double()
    g = mixing.T @ (point.gradient[:, :-1].double() + target) - target
    size = g.abs()
    feasible = min(1.0, penalty.l1 / max(float(size.max()), torch.finfo(torch.float64).tiny))
    value, product = penalty.of(point.coef), float((point.coef[:, :-1] * g).sum())  # Ω(W) and ⟨W, G⟩
    scales = [feasible] if penalty.ridge == 0 else sorted({1.0, (1 + feasible) / 2, feasible})
    bounds = {scale: max(0.0, value + scale * product + _conjugate(scale * size, penalty)) for scale in scales}
    bounds = {scale: bound for scale, bound in bounds.items() if bound <= limit}
    if not bounds:
        return torch.inf
    divergence = torch.zeros(len(bounds), dtype=torch.float64, device=g.device)
    for x, labels, share in rows.chunks():
        log_p = log_probabilities(point.coef, x)
        q = mixing.T.to(log_p.dtype) @ log_p.exp()
        for index, scale in enumerate(bounds):
            mixed = (q * scale).scatter_add_(0, labels[None], torch.full_like(share[None], 1 - scale))
            divergence[index] += ((torch.xlogy(mixed, mixed) - mixed * log_p).sum(0) * share).sum(dtype=torch.float64)
    gap = min(kl + bound for kl, bound in zip(divergence.clamp(min=0).tolist(), bounds.values(), strict=True))
    return gap if gap <= limit else torch.inf


def _mixing(wanted: Tensor, found: Tensor) -> Tensor:
    """The stochastic matrix M (C, C) of step 1: foundᵀ M = wantedᵀ."""
    found = found.clamp(min=torch.finfo(found.dtype).tiny)
    found = found / found.sum()  # of rounding only
    kept = (wanted / found).clamp(max=1)
    lacking = (wanted - found).clamp(min=0)
    if not float(lacking.sum()) > 0:
        return torch.diag(torch.ones_like(kept))
    return torch.diag(kept) + (1 - kept)[:, None] * (lacking / lacking.sum())


def _conjugate(size: Tensor, penalty: Penalty) -> float:
    """Σ Ω*(G) from |G|; with α = 1 only points where it is zero are asked for."""
    return float((size - penalty.l1).clamp(min=0).square().sum()) / (2 * penalty.ridge) if penalty.ridge > 0 else 0.0
