"""A layer of one image in concepts: X̃ = U Vᵀ + β (GIG paper, Sec. 3.2.2 and Eq. 9), with its active concepts only."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Coded:
    """Coefficients and vectors of the concepts that an image uses; of thousands, a few dozen as a rule."""

    concepts: Tensor  # (A,) their numbers in the layer's dictionary, ascending
    u: Tensor  # (P, A) coefficients U
    vectors: Tensor  # (A, C) concept vectors, the rows of Vᵀ
    shift: Tensor  # (C,) β
    features: Tensor  # (P, C) the layer X as the network has it

    @property
    def part(self) -> Tensor:
        """U Vᵀ, (P, C)."""
        return self.u @ self.vectors

    @property
    def approximation(self) -> Tensor:
        """X̃, (P, C)."""
        return self.part + self.shift

    @property
    def residual(self) -> Tensor:
        """X − X̃, (P, C): what no concept explains."""
        return self.features - self.approximation


def coded(features: Tensor, u: Tensor, vectors: Tensor, shift: Tensor) -> Coded:
    """Keep the active concepts.

    Args:
        features: (P, C).
        u: (P, k) coefficients, most of them zero.
        vectors: (k, C).
        shift: (C,).
    """
    active = torch.nonzero((u != 0).any(0)).flatten()
    return Coded(active, u[:, active], vectors[active], shift, features)
