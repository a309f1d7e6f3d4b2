"""Contributions over many images: means of Eq. 5 and 7 per concept, and concepts that several classes share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.gig.attribution.integrated_gradients import Contributions


@dataclass
class Mean:
    """Running means of contributions of k concepts to T targets; images without a concept count as 0."""

    concepts: int
    targets: int
    images: int = 0
    total: Tensor = field(init=False)  # (T, k) sums of contributions
    size: Tensor = field(init=False)  # (T,) sums of what all concepts and the residual add or take away
    residual: Tensor = field(init=False)  # (T,) sums of residuals
    residual_size: Tensor = field(init=False)  # (T,) sums of |residual|
    active: Tensor = field(init=False)  # (k,) images that use a concept
    errors: list[float] = field(default_factory=list)  # completeness errors
    steps: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.total = torch.zeros(self.targets, self.concepts, dtype=torch.float64)
        self.size, self.residual, self.residual_size = torch.zeros(3, self.targets, dtype=torch.float64)
        self.active = torch.zeros(self.concepts, dtype=torch.int64)

    def add(self, found: Contributions) -> None:
        """One image more."""
        own = found.total.detach().double().cpu()
        residual = found.residual.detach().double().cpu()
        where = found.concepts.cpu()
        self.images += 1
        self.total[:, where] += own
        self.active[where] += 1
        self.residual += residual
        self.residual_size += residual.abs()
        self.size += own.abs().sum(1) + residual.abs()
        self.errors += found.completeness_error.tolist()
        self.steps += found.steps.tolist()

    @property
    def values(self) -> Tensor:
        """(T, k) mean contribution."""
        return self.total / max(self.images, 1)

    @property
    def shares(self) -> Tensor:
        """(T, k) contributions as shares of all that a layer adds or takes away, its error included."""
        return self.total / self.size.clamp_min(torch.finfo(torch.float64).tiny)[:, None]

    @property
    def residual_values(self) -> Tensor:
        """(T,) mean residual."""
        return self.residual / max(self.images, 1)

    @property
    def residual_shares(self) -> Tensor:
        """(T,) |residual| as a share of the same."""
        return self.residual_size / self.size.clamp_min(torch.finfo(torch.float64).tiny)


def top(values: Tensor, n: int) -> list[int]:
    """The n concepts that add most (k,), without those that add nothing or take away."""
    order = torch.sort(values, descending=True, stable=True).indices[:n]
    return [number for number in order.tolist() if values[number] > 0]


def shared(shares: Mapping[str, Tensor], n: int, *, without: Sequence[int] = ()) -> list[int]:
    """The n concepts that several outputs have in common.

    A concept is as shared as its share is in the output that it adds least to; it must add to all of them. The paper
    shows such concepts without saying how they are found.

    Args:
        shares: Of each output, the shares of all concepts (k,).
        n: How many.
        without: Concepts that are not wanted.
    """
    if len(shares) < 2:
        raise UserError(f"Shared concepts need two outputs or more; got {len(shares)}.")
    least = torch.stack(list(shares.values())).min(0).values
    if without:
        least = least.index_fill(0, torch.tensor(list(without)), 0.0)
    return top(least, n)
