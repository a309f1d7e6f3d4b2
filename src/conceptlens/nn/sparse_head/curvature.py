"""How the loss bends: a Kronecker product of two small matrices, corrected by what past steps have shown.

The metric is B₀ = τ K ⊗ S (see `objective.curvature`): features that are correlated cost no extra steps, and a product
with it costs C d² + C² d, whatever the number of rows. On top come the BFGS corrections of the last few steps in their
compact form (Byrd, Nocedal and Schnabel, 1994, Theorem 2.3). They hold for any λ, since the penalty is not part of
them, and so serve a whole path. τ follows the curvature met along the steps.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from conceptlens.nn.sparse_head.objective import Factors

MEMORY = 16  # steps remembered
SLACK = 1.25  # corrections may bend a little more than the metric itself


class Model(NamedTuple):
    """A quadratic form: B V = K V S − Ψᵀ (M Ψ V), and the most it bends in each class's row (C, 1)."""

    classes: Tensor
    features: Tensor
    psi: Tensor  # (2m, C (d + 1)), m steps
    mixed: Tensor  # (2m, C (d + 1)): the middle matrix times Ψ
    bend: Tensor

    def apply(self, v: Tensor) -> Tensor:
        """B v for v (C, d + 1)."""
        return self.classes @ (v @ self.features) - ((self.psi @ v.flatten()) @ self.mixed).view_as(v)


class Curvature:
    """What is known of the Hessian; grows with every step taken."""

    def __init__(self, factors: Factors, scale: float = 1.0) -> None:
        self.scale = scale  # τ
        self.steps: list[Tensor] = []
        self.changes: list[Tensor] = []
        self.refresh(factors)

    def refresh(self, factors: Factors) -> None:
        """Take new factors. The remembered steps stay: they are facts about the loss."""
        self.factors = factors
        self.largest = _largest_eigenvalue(factors.features)

    def forget(self) -> None:
        self.steps, self.changes = [], []

    def learn(self, step: Tensor, change: Tensor) -> None:
        """Remember that the gradient changed by `change` along `step`."""
        product = float((step * change).sum())
        expected = float((step * (self.factors.classes @ (step @ self.factors.features))).sum())
        if not product > 1e-10 * float(step.norm() * change.norm()) or not expected > 0:
            return  # no curvature there, or lost in rounding
        self.scale = max(1.0, (self.scale * product / expected) ** 0.5)
        self.steps = [*self.steps[1 - MEMORY :], step.flatten() / product**0.5]
        self.changes = [*self.changes[1 - MEMORY :], change.flatten() / product**0.5]

    def model(self) -> Model:
        """The present quadratic model."""
        k, s, prior = self.factors
        k = self.scale * k
        bend = (SLACK * self.scale * self.largest * prior)[:, None]
        if self.steps:
            steps, changes = torch.stack(self.steps), torch.stack(self.changes)
            pushed = (k @ (steps.view(len(steps), len(k), -1) @ s)).flatten(1)
            inner = (steps @ pushed.T).double()
            cross = (steps @ changes.T).double()
            lower = cross.tril(-1)
            middle = torch.cat([torch.cat([inner, lower], 1), torch.cat([lower.T, -torch.diag(cross.diag())], 1)])
            inverse = torch.linalg.inv_ex(middle).inverse.to(k.dtype)
            if bool(torch.isfinite(inverse).all()):
                psi = torch.cat([pushed, changes])
                return Model(k, s, psi, inverse @ psi, bend)
            self.forget()  # steps that say the same twice
        nothing = torch.zeros(0, len(k) * len(s), dtype=k.dtype, device=k.device)
        return Model(k, s, nothing, nothing, bend)


def _largest_eigenvalue(matrix: Tensor, squarings: int = 6) -> float:
    """An upper bound, at most d^(1/64) too large: the 64th root of the trace of the 64th power. No synchronization."""
    power, log_size = matrix, torch.zeros((), dtype=torch.float64, device=matrix.device)
    for _ in range(squarings):
        norm = power.norm().clamp(min=torch.finfo(matrix.dtype).tiny)
        power = power / norm
        power, log_size = power @ power, 2 * (log_size + norm.double().log())
    return float(((power.trace().double().log() + log_size) / 2**squarings).exp())
