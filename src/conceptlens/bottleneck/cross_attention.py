"""Cross-attention: learned queries gather patches into slots (as in Explicd, Gao et al., MICCAI 2024).

Unlike Magnet, where each patch is shared among the slots, here each slot spreads its attention over the patches: the
weights of a slot add up to one over them. There is no residual from the query, so a slot holds nothing but patches.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

HEADS = 12


def most_heads(width: int, limit: int = HEADS) -> int:
    """The largest number of heads up to `limit` that shares the width equally."""
    return next(heads for heads in range(min(limit, width), 0, -1) if width % heads == 0)


class CrossAttention(nn.Module):
    """Patches (B, L, D) → slots (B, S, D) and their attention (B, S, L), the mean over heads."""

    def __init__(
        self,
        slots: int,
        width: int,
        *,
        heads: int | None = None,
        token_norm: Literal["none", "layer"] = "none",
        learn_queries: bool = True,
        query_rate: float = 1.0,
    ) -> None:
        super().__init__()
        self.token_norm = token_norm
        self.queries = nn.Parameter(nn.init.xavier_uniform_(torch.empty(slots, width)), requires_grad=learn_queries)
        self.queries.rate = query_rate  # type: ignore[attr-defined]  # read by the optimiser
        self.attend = nn.MultiheadAttention(width, heads or most_heads(width), batch_first=True)

    def forward(self, patches: Tensor) -> tuple[Tensor, Tensor]:
        if self.token_norm == "layer":
            patches = F.layer_norm(patches, patches.shape[-1:])
        queries = self.queries.to(patches.dtype).expand(len(patches), -1, -1)
        slots, attention = self.attend(queries, patches, patches)
        return slots, attention
