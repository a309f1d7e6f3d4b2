"""Sparse fusion over layers, as in MVP-CBM (Wang et al., IJCAI 2025): each concept keeps the layers that serve it best.

Of a concept's scores s_ℓ in the layers ℓ, with a linear map A over concepts:

    w_ℓ = softmax_ℓ(A s)_ℓ          θ = min w + σ(κ) (max w − min w)          m_ℓ = 1 if w_ℓ ≥ θ, else 0
    α_ℓ ∝ m_ℓ w_ℓ exp(τ (w_ℓ − θ)), adding up to 1 over the layers            s = Σ_ℓ α_ℓ s_ℓ

The mask m has no gradient of its own, and θ cancels from α: with it alone neither κ nor the share of active layers
could learn. `straight-through` computes with m and learns as if it were σ((w − θ)/0.1).
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

Mask = Literal["straight-through", "hard"]
SOFTNESS = 0.1  # of the mask that gradients see, in units of w, which is a share
TINY = 1e-8


@dataclass(frozen=True)
class Fused:
    """What became of the layers' scores."""

    scores: Tensor  # (B, K)
    weights: Tensor  # α, (B, layers, K)
    active: Tensor  # (B,): share of layers that take part, over all concepts


class LayerFusion(nn.Module):
    """Scores (B, layers, K) → fused ones.

    Args:
        concepts: K.
        mask: How the mask learns; see above.
        sharpness: τ at the start; it learns with a straight-through mask.
        threshold: σ(κ) at the start, likewise: where between the smallest and the largest weight a layer is dropped.
    """

    def __init__(self, concepts: int, *, mask: Mask, sharpness: float, threshold: float) -> None:
        super().__init__()
        learns = mask == "straight-through"
        self.mask = mask
        self.attend = nn.Linear(concepts, concepts)
        self.sharpness = nn.Parameter(torch.tensor(float(sharpness)), requires_grad=learns)
        self.kappa = nn.Parameter(torch.tensor(math.log(threshold / (1 - threshold))), requires_grad=learns)

    def forward(self, scores: Tensor) -> Fused:
        weights = self.attend(scores).float().softmax(1)
        low, high = weights.amin(1, keepdim=True), weights.amax(1, keepdim=True)
        above = weights - (low + self.kappa.sigmoid() * (high - low))
        raw = weights * (self.sharpness * above).exp()
        mask = (above >= 0).to(raw.dtype)
        alpha = _shares(raw * mask)
        if self.mask == "straight-through":
            soft = (above / SOFTNESS).sigmoid()
            alpha, mask = _as_if(alpha, _shares(raw * soft)), _as_if(mask, soft)
        return Fused((alpha * scores).sum(1), alpha, mask.mean((1, 2)))


def _shares(weights: Tensor) -> Tensor:
    return weights / (weights.sum(1, keepdim=True) + TINY)


def _as_if(value: Tensor, learning: Tensor) -> Tensor:
    """The value of one with the gradient of the other."""
    return value.detach() + (learning - learning.detach())
