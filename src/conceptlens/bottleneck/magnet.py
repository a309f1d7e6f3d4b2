"""Magnet attention: a differentiable soft clustering of patches into slots (IVQ-CBM paper, section 3.3, Eq. 5 and 6).

The paper leaves the scale of the tokens and the start of the queries open. At the usual scale of ViT tokens Eq. 5 is
almost one-hot: most slots get no patch, and their concepts stay at chance. Here the tokens may be normalised, the
queries may start from k-means, and the temperature τ (Appendix A.2) may be set from data so that the assignment is
many-to-many, as the paper says of itself.
"""

import math
from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.bottleneck.clusters import kmeans, squared_distances

EMPTY = 0.01  # a slot is empty when it holds less than this share of an even portion of the patches


class Magnet(nn.Module):
    """Patches (B, L, D) → slots (B, S, D) and the assignment A (B, L, S), whose rows sum to one over the slots."""

    def __init__(
        self,
        slots: int,
        width: int,
        *,
        temperature: float | Literal["calibrate"] = 1.0,
        learn_temperature: bool = False,
        target_entropy: float = 0.5,
        token_norm: Literal["none", "layer"] = "none",
        pooling: Literal["sum", "mean"] = "sum",
        query_init: Literal["normal", "kmeans"] = "normal",
        learn_queries: bool = True,
        query_rate: float = 1.0,
    ) -> None:
        super().__init__()
        self.calibrated, self.target_entropy = temperature == "calibrate", target_entropy
        self.token_norm, self.pooling, self.query_init = token_norm, pooling, query_init
        self.queries = nn.Parameter(torch.randn(slots, width), requires_grad=learn_queries)
        self.queries.rate = query_rate  # type: ignore[attr-defined]  # read by the optimiser
        start = 0.0 if temperature == "calibrate" else math.log(temperature)
        self.log_temperature = nn.Parameter(torch.tensor(start), requires_grad=learn_temperature)

    def normalise(self, patches: Tensor) -> Tensor:
        return F.layer_norm(patches, patches.shape[-1:]) if self.token_norm == "layer" else patches

    def assign(self, patches: Tensor) -> Tensor:
        """Eq. 5 for normalised patches: A_jk ∝ exp(−‖z_j − q_k‖² / τ), (B, L, S). ‖z_j‖² cancels and is left out."""
        with torch.autocast(patches.device.type, enabled=False):
            z, q = patches.to(self.queries.dtype), self.queries
            closeness = 2 * (z @ q.T) - q.square().sum(-1)
            return (closeness / self.log_temperature.exp()).softmax(-1)

    def forward(self, patches: Tensor) -> tuple[Tensor, Tensor]:
        z = self.normalise(patches)
        a = self.assign(z)
        slots = a.transpose(1, 2) @ z.to(a.dtype)  # Eq. 6: M = Aᵀ Z
        if self.pooling == "mean":
            slots = slots / a.sum(1).unsqueeze(-1).clamp_min(1e-6)
        return slots, a

    @torch.no_grad()
    def prepare(self, patches: Iterable[Tensor], *, seed: int = 0) -> None:
        """Start the queries and set τ from patches of some training images."""
        z = torch.cat([self.normalise(piece).flatten(0, 1).float() for piece in patches])
        if self.query_init == "kmeans":
            self.queries.copy_(kmeans(z, len(self.queries), seed=seed))
        self.calibrate(z)

    @torch.no_grad()
    def calibrate(self, z: Tensor) -> None:
        """Set τ so that normalised patches (…, D) are shared among slots as widely as wanted."""
        if self.calibrated and len(self.queries) > 1:
            distances = squared_distances(z.flatten(0, -2).float(), self.queries.float())
            self.log_temperature.fill_(calibrate(distances, self.target_entropy))

    @torch.no_grad()
    def refill(self, patches: Tensor) -> int:
        """Move the query of each empty slot to the patch that all queries serve worst; returns how many were empty."""
        z = self.normalise(patches)
        mass = self.assign(z).mean((0, 1)) * len(self.queries)
        empty = (mass < EMPTY).nonzero().squeeze(-1)
        for index in empty.tolist():
            flat = z.flatten(0, 1).to(self.queries.dtype)
            worst = squared_distances(flat, self.queries).min(-1).values.argmax()
            self.queries[index] = flat[worst]
        return len(empty)


def entropy_share(assignment: Tensor) -> Tensor:
    """Mean entropy of an assignment (…, S) over its slots, as a share of the largest possible, ln S."""
    entropy: Tensor = torch.special.entr(assignment).sum(-1).mean()
    return entropy / math.log(assignment.shape[-1])


def calibrate(distances: Tensor, target: float) -> float:
    """ln τ at which softmax(−distances / τ), (N, S), has the wanted mean entropy share; found by bisection."""
    spread = float((distances - distances.min(-1, keepdim=True).values).mean())
    centre = math.log(max(spread, 1e-12))
    low, high = centre - 20, centre + 20
    for _ in range(50):
        middle = (low + high) / 2
        share = float(entropy_share((-distances / math.exp(middle)).softmax(-1)))
        low, high = (middle, high) if share < target else (low, middle)
    return (low + high) / 2
