"""The foreground gate of PF-CBM (Ramachandram, Spatially Grounded Concept Bottleneck Models via Part-Factorized
Attention, 2026, section 3.2): how far each patch belongs to the object.

    H = GELU(LayerNorm(X) W₁ + b₁)      z = H w₂ + b₂      g = sigmoid(z)            (Eq. 1)

It enters attention as log(g + ε), added to the logits: after the softmax a patch counts g times as much, and no
gradient is cut as a hard mask would.

The norm's scale γ and shift β are moved into the layer behind it: LayerNorm(X) W₁ + b₁ = X̂ (γ W₁) + (β W₁ + b₁), with
X̂ normalized only. On frozen patches X̂ then needs no gradient, which saves the largest product of the backward pass.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

EPSILON = 1e-6
HIDDEN = 256


class ForegroundGate(nn.Module):
    """Patches (B, L, D) → logits (B, L) of belonging to the object."""

    def __init__(self, width: int, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.hidden = nn.Linear(width, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, patches: Tensor) -> Tensor:
        norm, hidden = self.norm, self.hidden
        with torch.autocast(patches.device.type, enabled=False):  # statistics are taken in fp32 as it is
            normal = F.layer_norm(patches, norm.normalized_shape, eps=norm.eps)
            weight = hidden.weight * norm.weight
            bias = hidden.bias + hidden.weight @ norm.bias
        logits: Tensor = self.out(F.gelu(F.linear(normal, weight, bias)))
        return logits.squeeze(-1)


def log_gate(logits: Tensor, epsilon: float = EPSILON) -> Tensor:
    """log(sigmoid(z) + ε) in float32: what is added to the attention logits; never below log ε."""
    return torch.log(torch.sigmoid(logits.float()) + epsilon)


def foreground_loss(logits: Tensor, target: Tensor, known: Tensor) -> Tensor:
    """Binary cross-entropy of the gate against a soft target, the mean over patches, (B,).

    Args:
        logits: (B, L).
        target: (B, L) in [0, 1].
        known: (B,) whether there is a target at all; the loss of other images is 0.
    """
    each = F.binary_cross_entropy_with_logits(logits.float(), target.float(), reduction="none")
    return each.mean(-1) * known
