"""Magnet attention: a differentiable soft clustering of patches into slots (IVQ-CBM paper, section 3.3, Eq. 5 and 6).

The paper leaves the scale of the tokens and the start of the queries open. At the usual scale of ViT tokens Eq. 5 is
almost one-hot: most slots get no patch, and their concepts stay at chance. Here the tokens may be normalized, the
queries may start from k-means, and the temperature τ (Appendix A.2) may be set from data so that the assignment is
many-to-many, as the paper says of itself.

`pooling: product` is ours: a patch counts for a slot as far as it belongs to the slot rather than to another (A, over
slots) *and* the slot looks at it rather than at another patch (P, over patches). With spare slots that no concept
reads, what no concept is about has somewhere to go.

`expected` is ours too: where each slot is expected before an image is seen, as the log of weights that add up to one
over the patches (`nn.grounding.part_places`). Eq. 5 with it is the posterior of a mixture: A_jk ∝ π_jk exp(−‖z_j −
q_k‖² / τ). A spare slot is expected everywhere alike.
"""

import math
from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.nn.quantization.clusters import kmeans, squared_distances

Pooling = Literal["sum", "mean", "product"]
EMPTY = 0.01  # a slot is empty when it holds less than this share of an even portion of the patches


class Magnet(nn.Module):
    """Patches (B, L, D) → slots (B, S, D), their weights of patches W (B, S, L) and the assignment A (B, L, S + spare).

    A's rows sum to one over all slots, the spare ones included. Slots are W Z: `sum` takes A as it is (Eq. 6), `mean`
    and `product` divide by the sum over patches.
    """

    def __init__(
        self,
        slots: int,
        width: int,
        *,
        temperature: float | Literal["calibrate"] = 1.0,
        learn_temperature: bool = False,
        target_entropy: float = 0.5,
        token_norm: Literal["none", "layer"] = "none",
        pooling: Pooling = "sum",
        patch_entropy: float = 0.85,
        spare: int = 0,
        query_init: Literal["normal", "kmeans"] = "normal",
        learn_queries: bool = True,
        query_rate: float = 1.0,
    ) -> None:
        super().__init__()
        self.calibrated, self.target_entropy = temperature == "calibrate", target_entropy
        self.token_norm, self.pooling, self.query_init = token_norm, pooling, query_init
        self.slots, self.patch_entropy = slots, patch_entropy
        self.queries = nn.Parameter(torch.randn(slots + spare, width), requires_grad=learn_queries)
        self.queries.rate = query_rate  # type: ignore[attr-defined]  # read by the optimizer
        start = 0.0 if temperature == "calibrate" else math.log(temperature)
        self.log_temperature = nn.Parameter(torch.tensor(start), requires_grad=learn_temperature)
        if pooling == "product":  # τ of P
            self.log_patch_temperature = nn.Parameter(torch.tensor(start), requires_grad=learn_temperature)

    def normalize(self, patches: Tensor) -> Tensor:
        return F.layer_norm(patches, patches.shape[-1:]) if self.token_norm == "layer" else patches

    def closeness(self, patches: Tensor) -> Tensor:
        """−‖z_j − q_k‖² + ‖z_j‖² of normalized patches, (B, L, S + spare): ‖z_j‖² cancels over the slots."""
        with torch.autocast(patches.device.type, enabled=False):
            z, q = patches.to(self.queries.dtype), self.queries
            return 2 * (z @ q.T) - q.square().sum(-1)

    def assign(self, patches: Tensor) -> Tensor:
        """Eq. 5 for normalized patches: A_jk ∝ exp(−‖z_j − q_k‖² / τ), (B, L, S + spare)."""
        return (self.closeness(patches) / self.log_temperature.exp()).softmax(-1)

    def weigh(self, patches: Tensor, closeness: Tensor, of_slot: Tensor, assignment: Tensor) -> Tensor:
        """W (B, S, L), by which a slot adds up patches; `of_slot` is what A is the softmax of."""
        if self.pooling == "product":
            length = patches.to(closeness.dtype).square().sum(-1, keepdim=True)  # does not cancel over patches
            of_patch = (closeness - length) / self.log_patch_temperature.exp()
            return (of_slot.log_softmax(-1) + of_patch)[..., : self.slots].softmax(1).transpose(1, 2)
        weights = assignment[..., : self.slots].transpose(1, 2)
        return weights / weights.sum(-1, keepdim=True).clamp_min(1e-6) if self.pooling == "mean" else weights

    def forward(self, patches: Tensor, expected: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """`expected`, (S, L): log π, if anything tells."""
        z = self.normalize(patches)
        closeness = self.closeness(z)
        of_slot = closeness / self.log_temperature.exp()
        if expected is not None:
            spare = len(self.queries) - self.slots
            of_slot = of_slot + F.pad(expected.T, (0, spare), value=-math.log(expected.shape[1]))
        assignment = of_slot.softmax(-1)
        weights = self.weigh(z, closeness, of_slot, assignment)
        return weights @ z.to(weights.dtype), weights, assignment  # Eq. 6: M = Aᵀ Z

    @torch.no_grad()
    def prepare(self, patches: Iterable[Tensor], *, seed: int = 0) -> None:
        """Start the queries and set τ from patches of some training images."""
        z = torch.cat([self.normalize(piece).float() for piece in patches])
        if self.query_init == "kmeans":
            self.queries.copy_(kmeans(z.flatten(0, 1), len(self.queries), seed=seed))
        self.calibrate(z)

    @torch.no_grad()
    def calibrate(self, z: Tensor) -> None:
        """Set τ so that normalized patches (B, L, D) are shared among slots, and slots among patches, as wanted."""
        if not (self.calibrated and len(self.queries) > 1):
            return
        distances = squared_distances(z.flatten(0, 1).float(), self.queries.float())
        self.log_temperature.fill_(calibrate(distances, self.target_entropy))
        if self.pooling == "product":
            by_slot = distances.view(*z.shape[:2], -1)[..., : self.slots].transpose(1, 2)
            self.log_patch_temperature.fill_(calibrate(by_slot, self.patch_entropy))

    @torch.no_grad()
    def refill(self, patches: Tensor) -> int:
        """Move the query of each empty slot to the patch that all queries serve worst; returns how many were empty."""
        z = self.normalize(patches)
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
    """ln τ at which softmax(−distances / τ), (…, S), has the wanted mean entropy share; found by bisection."""
    spread = float((distances - distances.min(-1, keepdim=True).values).mean())
    center = math.log(max(spread, 1e-12))
    low, high = center - 20, center + 20
    for _ in range(50):
        middle = (low + high) / 2
        share = float(entropy_share((-distances / math.exp(middle)).softmax(-1)))
        low, high = (middle, high) if share < target else (low, middle)
    return (low + high) / 2
