"""Part queries that gather patches, one map each (PF-CBM, section 3.3, Eq. 2 and 3).

    S_pn = Q_p·K_n / √d + bias_pn      A_p = softmax_n S_pn      T_p = LayerNorm(Σ_n A_pn V_n)
    Q = Q₀ W_Q      K = X W_K      V = X W_V

Queries do not depend on the image, so keys and values of single patches are never made: Q_p·K_n = (Q_p W_Kᵀ)·X_n, and
Σ A_pn V_n = (Σ A_pn X_n) W_V. That is the same sum in another order, and P products a patch in place of 2d. Between the
two, `gather` needs no weights: several sets of queries can share one look at the patches.
"""

import math

import torch
from torch import Tensor, nn

INNER = 384


class PartAttention(nn.Module):
    """Patches (B, L, D) → slots (B, P, d) and their attention (B, P, L), single-headed.

    Args:
        parts: P.
        width: D of the patches.
        inner: d, the width of queries, keys, values and slots.
    """

    def __init__(self, parts: int, width: int, inner: int = INNER) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(parts, width) / math.sqrt(width))
        self.query = nn.Linear(width, inner, bias=False)
        self.key = nn.Linear(width, inner, bias=False)
        self.value = nn.Linear(width, inner, bias=False)
        self.norm = nn.LayerNorm(inner)

    def forward(self, patches: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """`bias` is what is added to the logits, broadcast to (B, P, L): the gate, a prior."""
        gathered, attention = gather(patches, self.asked(), bias)
        return self.slots(gathered), attention

    def asked(self) -> Tensor:
        """What each query asks of a patch: Q_p W_Kᵀ / √d, (P, D)."""
        with torch.autocast(self.queries.device.type, enabled=False):  # so small that casts would cost more
            found: Tensor = self.query(self.queries) @ self.key.weight
            return found / math.sqrt(self.key.out_features)

    def slots(self, gathered: Tensor) -> Tensor:
        """Σ A_pn X_n, (B, P, D) → T_p, (B, P, d)."""
        found: Tensor = self.norm(self.value(gathered))
        return found


def gather(patches: Tensor, asked: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Patches (B, L, D), asked (P, D), bias to (B, P, L) → Σ_n A_pn X_n, (B, P, D), and A, (B, P, L), in float32."""
    # One product an image: over the whole batch at once, the gradient of the queries is a sum over all patches of
    # all images for a handful of numbers, which keeps only a few of a GPU's cores busy.
    logits = asked.to(patches.dtype).expand(patches.shape[0], -1, -1) @ patches.mT
    attention = (logits + bias.float()).softmax(-1)
    return attention.to(patches.dtype) @ patches, attention


def centroids(attention: Tensor, places: Tensor) -> Tensor:
    """m_p = Σ_n A_pn Φ_n, (B, P, 2); places (L, 2)."""
    return attention.float() @ places


def alignment_loss(centroid: Tensor, points: Tensor, seen: Tensor) -> Tensor:
    """Smooth L1 between centroids and visible points, in patches; the mean over an image's visible parts, (B,).

    Args:
        centroid: (B, P, 2).
        points: (B, P, 2); anything where a part is not seen.
        seen: (B, P), bool. An image without a visible part has a loss of 0.
    """
    away = torch.where(seen.unsqueeze(-1), centroid - points, 0.0)
    each = nn.functional.smooth_l1_loss(away, torch.zeros_like(away), reduction="none").sum(-1)
    return each.sum(-1) / seen.sum(-1).clamp_min(1)


def attention_entropy(attention: Tensor) -> Tensor:
    """Eq. 7: −Σ_n A_pn log A_pn, the mean over parts and the whole, (B,); between 0 and log L."""
    weights = attention.float()
    # Far from its Gaussian a weight is exactly 0, where the derivative of x log x is infinite.
    return -(weights * weights.clamp_min(torch.finfo(torch.float32).tiny).log()).sum(-1).mean(-1)
