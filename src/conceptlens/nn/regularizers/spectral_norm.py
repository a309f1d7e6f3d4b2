"""The largest singular value σ of every weight matrix of the encoder, kept small or held.

`penalty` is spectral norm regularization (Yoshida & Miyato, 2017): λ/2 Σ σ(W)², with σ = uᵀ W v from power iteration
and so with the gradient λ σ u vᵀ. `normalize` is spectral normalization (Miyato et al., ICLR 2018): the network
computes with W · σ₀ / σ(W), and no matrix can grow. There σ₀ is 1, for networks that learn from nothing; here it is by
default what a matrix begins with, so that an encoder that comes trained begins as the function that it was.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Encoder, Tokens
from conceptlens.nn.regularizers.regularizer import NOTHING, Context, Regularized, Regularizer, check_not_negative
from conceptlens.nn.setup import Setup

WARM_UP = 30  # power iterations before training


def as_matrix(weight: Tensor) -> Tensor:
    """A weight as a matrix; a convolution's kernel (out, in, h, w) as (out, in · h · w)."""
    return weight.flatten(1).float()


@torch.no_grad()
def power_iteration(matrix: Tensor, left: Tensor, steps: int = 1) -> tuple[Tensor, Tensor]:
    """Unit vectors u (out,) and v (in,) nearer to the first singular vectors of a matrix (out, in), from `left`."""
    right = F.normalize(matrix.T @ left, dim=0)
    for step in range(steps):
        left = F.normalize(matrix @ right, dim=0)
        if step < steps - 1:
            right = F.normalize(matrix.T @ left, dim=0)
    return left, right


def largest_singular_value(matrix: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """σ = uᵀ W v; its gradient is u vᵀ."""
    return left @ matrix @ right


def first_vector(matrix: Tensor) -> Tensor:
    """A left vector to go on from: the same for the same matrix, on every process."""
    start = torch.randn(len(matrix), generator=torch.Generator().manual_seed(0)).to(matrix)
    return power_iteration(matrix.detach(), start, WARM_UP)[0]


def weight_matrices(encoder: Encoder) -> list[tuple[nn.Module, str]]:
    """Where the weights are that learn and that tokens pass through: linear maps and convolutions, not positions."""
    heads = {id(module) for head in encoder.heads() for module in head.modules()}
    return [
        (module, name)
        for module in encoder.modules()
        if id(module) not in heads
        for name, weight in module.named_parameters(recurse=False)
        if name.endswith("weight") and weight.ndim > 1 and weight.requires_grad
    ]


class HeldNorm(nn.Module):
    """A parametrization: W → W · σ₀ / σ(W)."""

    def __init__(self, weight: Tensor, norm: float | Literal["start"]) -> None:
        super().__init__()
        matrix = as_matrix(weight.detach())
        left, right = power_iteration(matrix, first_vector(matrix))
        target = largest_singular_value(matrix, left, right) if norm == "start" else torch.tensor(norm).to(matrix)
        self.register_buffer("left", left)
        self.register_buffer("target", target)
        self.left: Tensor
        self.target: Tensor

    def forward(self, weight: Tensor) -> Tensor:
        matrix = as_matrix(weight)
        left, right = power_iteration(matrix.detach(), self.left)
        if self.training:
            self.left.copy_(left)
        return weight * (self.target / largest_singular_value(matrix, left, right).clamp_min(1e-12)).to(weight.dtype)


class SpectralNorm(Regularizer):
    """Acts on weights, not on tokens: they pass unchanged."""

    def __init__(
        self,
        setup: Setup,
        *,
        weight: float = 0.01,
        mode: Literal["penalty", "normalize"] = "penalty",
        norm: float | Literal["start"] = "start",
        iterations: int = 1,
    ) -> None:
        """Spectral norm of the encoder's weights.

        Args:
            setup: What the model is built for.
            weight: λ, the weight of the penalty; `normalize` has none.
            mode: `penalty` adds λ/2 Σ σ² to the loss; `normalize` computes with weights of a fixed σ.
            norm: For `normalize`: σ of every matrix, or `start`: what each begins with.
            iterations: Steps of power iteration for each forward pass of the penalty; it goes on where it stood.
        """
        super().__init__()
        check_not_negative(weight=weight)
        for option, fine, words, found in (
            ("norm", norm == "start" or norm > 0, "start or a number above 0", norm),
            ("iterations", iterations >= 1, "1 or more", iterations),
        ):
            if not fine:
                raise UserError(f"regularizer.{option}: expected {words}, found {found}.")
        self.weight, self.mode, self.norm, self.iterations = weight, mode, norm, iterations
        self._matrices: list[tuple[nn.Module, str]] = []  # the encoder's; a list does not make them parts of this one

    def attach(self, encoder: Encoder) -> None:
        self._matrices = weight_matrices(encoder)
        for number, (module, name) in enumerate(self._matrices):
            weight = getattr(module, name)
            if self.mode == "normalize":
                parametrize.register_parametrization(module, name, HeldNorm(weight, self.norm))
            else:
                self.register_buffer(f"left_{number}", first_vector(as_matrix(weight)))

    def detach(self) -> None:
        for number, (module, name) in enumerate(self._matrices):
            if self.mode == "normalize":
                module.parametrizations[name].eval()  # type: ignore[index, union-attr]  # its vector stays
                parametrize.remove_parametrizations(module, name)  # the weight stays as it was computed with
            else:
                delattr(self, f"left_{number}")
        self._matrices = []

    def forward(self, tokens: Tokens, context: Context = NOTHING) -> Regularized:
        if self.mode == "normalize" or not self.training:
            return Regularized(tokens)
        squares = []
        with torch.autocast(tokens.patches.device.type, enabled=False):
            for number, (module, name) in enumerate(self._matrices):
                weight = getattr(module, name)
                if weight.requires_grad:
                    matrix, kept = as_matrix(weight), getattr(self, f"left_{number}")
                    left, right = power_iteration(matrix.detach(), kept, self.iterations)
                    kept.copy_(left)
                    squares.append(largest_singular_value(matrix, left, right).square())
        if not squares:
            return Regularized(tokens)  # a stage in which the encoder rests
        # One value for all images: its sum over the pieces of a batch is the penalty, however the batch is cut.
        penalty = self.weight / 2 * torch.stack(squares).sum()
        return Regularized(tokens, {"spectral": penalty.expand(len(tokens.patches))})
