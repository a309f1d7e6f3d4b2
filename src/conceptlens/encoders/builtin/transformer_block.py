"""A pre-norm transformer block with stochastic depth (Huang et al., 2016)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def drop_path(branch: Tensor, rate: float, training: bool) -> Tensor:
    """Leave out a residual branch (B, N, D) for a random share `rate` of the images, and scale up the others."""
    if rate == 0 or not training:
        return branch
    keep = torch.empty(len(branch), 1, 1, dtype=branch.dtype, device=branch.device).bernoulli_(1 - rate)
    return branch * keep / (1 - rate)


class Block(nn.Module):
    """x + attention(norm(x)), then x + MLP(norm(x)); x is (B, N, D)."""

    def __init__(self, width: int, heads: int, mlp_ratio: float, drop_path: float = 0.0) -> None:
        super().__init__()
        self.heads, self.drop_path = heads, drop_path
        hidden = round(width * mlp_ratio)
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def attend(self, x: Tensor, seen: Tensor | None = None) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))  # type: ignore[no-any-return]

    def forward(self, x: Tensor, seen: Tensor | None = None) -> Tensor:
        """`seen`, broadcast to (B, heads, N, N), is false where a token may not attend; without it all may."""
        x = x + drop_path(self.attend(self.attention_norm(x), seen), self.drop_path, self.training)
        return x + drop_path(self.mlp(self.mlp_norm(x)), self.drop_path, self.training)
