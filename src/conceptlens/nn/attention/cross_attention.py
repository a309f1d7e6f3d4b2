"""Cross-attention: learned queries gather patches into slots (as in Explicd, Gao et al., MICCAI 2024).

Unlike Magnet, where each patch is shared among the slots, here each slot spreads its attention over the patches: the
weights of a slot add up to one over them. There is no residual from the query, so a slot holds nothing but patches.

Queries are few and patches many, so where it is less work the maps to keys and values are not applied to the patches:
⟨q, W_k x + b_k⟩ = ⟨W_kᵀ q, x⟩ but for what a softmax over patches does not see, and values are mapped after the sum:
Σ_l a_l (W_v x_l + b_v) = W_v Σ_l a_l x_l + b_v.
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
        self.queries.rate = query_rate  # type: ignore[attr-defined]  # read by the optimizer
        self.attend = nn.MultiheadAttention(width, heads or most_heads(width), batch_first=True)

    def forward(self, patches: Tensor, expected: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """`expected`, (S, L), is added to the logits of every head: where a slot is expected, if anything tells."""
        if self.token_norm == "layer":
            patches = F.layer_norm(patches, patches.shape[-1:])
        if self.attend.num_heads * len(self.queries) < patches.shape[-1]:
            return self._mapped_last(patches, expected)
        queries = self.queries.to(patches.dtype).expand(patches.shape[0], -1, -1)
        mask = None if expected is None else expected.to(patches.dtype)
        slots, attention = self.attend(queries, patches, patches, attn_mask=mask)
        return slots, attention

    def _mapped_last(self, patches: Tensor, expected: Tensor | None) -> tuple[Tensor, Tensor]:
        """The same attention, with keys and values never made."""
        (batch, length, width), heads = patches.shape, self.attend.num_heads
        to_query, to_key, to_value = self.attend.in_proj_weight.chunk(3)
        query_bias, _, value_bias = self.attend.in_proj_bias.chunk(3)
        depth = width // heads
        queries = F.linear(self.queries, to_query, query_bias).view(-1, heads, depth) / depth**0.5
        asked = torch.einsum("shd,hdw->shw", queries, to_key.view(heads, depth, width))
        scores = patches @ asked.flatten(0, 1).to(patches.dtype).T  # (B, L, S · H)
        if expected is not None:
            scores = scores + expected.repeat_interleave(heads, 0).T
        weights = scores.float().softmax(1).to(patches.dtype)
        mixed = (weights.transpose(1, 2) @ patches).view(batch, -1, heads, width)
        values = torch.einsum("bshw,hdw->bshd", mixed, to_value.view(heads, depth, width)) + value_bias.view(heads, -1)
        slots = self.attend.out_proj(values.flatten(2))
        return slots, weights.view(batch, length, -1, heads).mean(-1).transpose(1, 2)
