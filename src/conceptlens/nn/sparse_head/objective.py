"""Elastic-net multinomial logistic regression: the objective, its gradient and its curvature.

    P(W, b) = Σ_i s_i CE(softmax(W x_i + b), y_i) + λ [ α ‖W‖₁ + (1 − α)/2 ‖W‖²_F ],    Σ_i s_i = 1

with s_i = 1/n unless rows or classes are weighted, and the bias b not penalized. It is the objective of glmnet
(Friedman, Hastie and Tibshirani, 2010) and of GLM-SAGA (Wong, Santurkar and Mądry, 2021), which LF-CBM uses with
α = 0.99. Weights and bias are kept in one matrix, `coef` (C, d + 1), the bias last. One evaluation is one pass over the
rows.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from conceptlens.nn.sparse_head.rows import Rows


@dataclass(frozen=True)
class Penalty:
    """λ and α of the elastic net."""

    lam: float
    alpha: float

    @property
    def l1(self) -> float:
        return self.lam * self.alpha

    @property
    def ridge(self) -> float:
        return self.lam * (1 - self.alpha)

    def of(self, coef: Tensor) -> float:
        """Its value for coef (C, d + 1)."""
        w = coef[:, :-1].double()
        return float(self.l1 * w.abs().sum() + self.ridge / 2 * w.square().sum())


class Point(NamedTuple):
    """Coefficients with the loss and its gradient (C, d + 1) there; none of it depends on λ."""

    coef: Tensor
    loss: float
    gradient: Tensor

    def objective(self, penalty: Penalty) -> float:
        return self.loss + penalty.of(self.coef)


def log_probabilities(coef: Tensor, x: Tensor) -> Tensor:
    """(C, m) for rows x (m, d). Classes come first: along rows a CPU takes the softmax several times faster."""
    return torch.log_softmax(torch.addmm(coef[:, -1:], coef[:, :-1], x.T), 0)


def evaluate(rows: Rows, coef: Tensor) -> Point:
    """Loss and gradient in one pass."""
    loss = torch.zeros((), dtype=torch.float64, device=coef.device)
    gradient = -rows.target
    for x, labels, share in rows.chunks():
        log_p = log_probabilities(coef, x)
        loss -= (log_p.gather(0, labels[None])[0] * share).sum(dtype=torch.float64)
        p = log_p.exp_().mul_(share)
        gradient[:, :-1] += p @ x
        gradient[:, -1] += p.sum(1)
    return Point(coef, float(loss), gradient)


def null_point(rows: Rows) -> Point:
    """W = 0 with its best bias, the log share of each class, in closed form.

    Every row is predicted as the shares π; the rows are centered, so that Σ s_i π x_iᵀ vanishes from the gradient.
    """
    log_prior = rows.target[:, -1].log()
    coef, gradient = torch.zeros_like(rows.target), -rows.target
    coef[:, -1], gradient[:, -1] = log_prior - log_prior.mean(), 0
    return Point(coef, -float((rows.target[:, -1] * log_prior).sum(dtype=torch.float64)), gradient)


def largest_lambda(null: Point, alpha: float) -> float:
    """The smallest λ at which W = 0 is optimal: there |∂loss/∂W| ≤ λα everywhere."""
    return float(null.gradient[:, :-1].abs().max()) / alpha


class Factors(NamedTuple):
    """The Hessian's mean factors: K (C, C) of classes and S (d + 1, d + 1) of features, and p̄ (C,) with K ≼ diag(p̄)."""

    classes: Tensor
    features: Tensor
    prior: Tensor


def curvature(rows: Rows, coef: Tensor) -> Factors:
    """The Hessian Σ s_i Λ_i ⊗ x_i x_iᵀ, Λ_i = diag(p_i) − p_i p_iᵀ, as if Λ_i and x_i were independent: K ⊗ S.

    K = Σ s_i Λ_i, and S = Σ w_i x_i x_iᵀ with w_i ∝ s_i tr Λ_i: a row that is already certain bends nothing.
    """
    count, width = rows.target.shape
    second = torch.zeros(count, count, dtype=coef.dtype, device=coef.device)
    prior = torch.zeros_like(coef[:, 0])
    features = torch.zeros(width, width, dtype=coef.dtype, device=coef.device)
    for x, _, share in rows.chunks():
        p = log_probabilities(coef, x).exp_()
        weight = (1 - p.square().sum(0)).clamp_(min=0) * share
        weighted = p * share
        second += weighted @ p.T
        prior += weighted.sum(1)
        features[:-1, :-1] += (x * weight[:, None]).T @ x
        features[-1, :-1] += weight @ x
        features[-1, -1] += weight.sum()
    features[:-1, -1] = features[-1, :-1]
    total = features[-1, -1].clamp(min=torch.finfo(coef.dtype).tiny)
    return Factors(torch.diag(prior) - second, features / total, prior)
