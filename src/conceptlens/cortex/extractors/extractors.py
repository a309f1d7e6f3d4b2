"""The information extractors CE, RE and TE: E (d, h, w) → a distribution over concepts (Eq. 1, Appendix A.3).

Sized by the codebook's width d: the paper's 512 filters, 4,096 and 2,048 hidden units at d = 256 are 2d, 16d and 8d.
Where text and published code differ, the text is the default and the code's choice an option:

- RE's dropout is 0.5 in the text, 0.4 in the code. The text names no stride; the code's, 2 at the start of each of the
  two layers, is used.
- TE reads channels as tokens in the text ("256 sequences of 16 × 16"), grid positions in the code.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError, unknown_name


def _convolution(
    inside: int, outside: int, stride: int = 1, *, relu: bool = True, bias: bool = True
) -> list[nn.Module]:
    layers: list[nn.Module] = [nn.Conv2d(inside, outside, 3, stride, 1, bias=bias), nn.BatchNorm2d(outside)]
    return [*layers, nn.ReLU()] if relu else layers


class ConvolutionalExtractor(nn.Module):
    """CE (A.3.1): two blocks of four 3 × 3 convolutions with batch norm and ReLU, each pooled; three linear layers."""

    def __init__(
        self, width: int, grid: tuple[int, int], classes: int, *, filters: int | None = None, hidden: int | None = None
    ) -> None:
        super().__init__()
        filters, hidden = filters or 2 * width, hidden or 16 * width
        blocks: list[nn.Module] = []
        for first in (width, filters):
            for layer in range(4):
                blocks += _convolution(first if layer == 0 else filters, filters)
            blocks.append(nn.MaxPool2d(2))
        self.blocks = nn.Sequential(*blocks)
        cells = (grid[0] // 4) * (grid[1] // 4)
        self.head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(filters * cells, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(hidden, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Linear(hidden, classes),
        )

    def forward(self, embeddings: Tensor) -> Tensor:
        logits: Tensor = self.head(self.blocks(embeddings))
        return logits


class _SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, reduction: int = 16) -> None:
        super().__init__()
        inner = max(1, channels // reduction)
        self.weigh = nn.Sequential(nn.Linear(channels, inner), nn.ReLU(), nn.Linear(inner, channels), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        weights: Tensor = self.weigh(x.mean((2, 3)))
        return x * weights[:, :, None, None]


class _Residual(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            *_convolution(inside, outside, stride, bias=False), *_convolution(outside, outside, relu=False, bias=False)
        )
        same = stride == 1 and inside == outside
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        )
        self.attention = _SqueezeExcitation(outside)

    def forward(self, x: Tensor) -> Tensor:
        weighed: Tensor = self.attention(self.path(x) + self.shortcut(x))
        return weighed.relu()


class ResidualExtractor(nn.Module):
    """RE (A.3.2): two layers of three residual blocks with squeeze and excitation, a mean over the grid, two linear."""

    def __init__(
        self,
        width: int,
        grid: tuple[int, int],
        classes: int,
        *,
        filters: int | None = None,
        hidden: int | None = None,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        filters, hidden = filters or 2 * width, hidden or 8 * width
        blocks = [
            _Residual(first if index == 0 else filters, filters, 2 if index == 0 else 1)
            for first in (width, filters)
            for index in range(3)
        ]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(
            nn.Linear(filters, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, classes),
        )

    def forward(self, embeddings: Tensor) -> Tensor:
        logits: Tensor = self.head(self.blocks(embeddings).mean((2, 3)))
        return logits


class _DualNormBlock(nn.Module):
    """Pre-LN; attention and feed-forward outputs pass a batch norm over channels before they are added."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.batch_norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        seen = self.norms[0](x)
        said = self.attention(seen, seen, seen, need_weights=False)[0]
        x = x + self.dropout(self.batch_norms[0](said.transpose(1, 2)).transpose(1, 2))
        said = self.feed_forward(self.norms[1](x))
        result: Tensor = x + self.batch_norms[1](said.transpose(1, 2)).transpose(1, 2)
        return result


class TransformerExtractor(nn.Module):
    """TE (A.3.3): channels, or positions, as tokens; a class token; 12 blocks of 8 heads; a two-layer head."""

    def __init__(
        self,
        width: int,
        grid: tuple[int, int],
        classes: int,
        *,
        hidden: int | None = None,
        depth: int = 12,
        heads: int = 8,
        dropout: float = 0.2,
        tokens: str = "channels",
    ) -> None:
        super().__init__()
        if tokens not in ("channels", "positions"):
            raise unknown_name("kind of TE's tokens", tokens, ("channels", "positions"))
        inner, cells = hidden or 2 * width, grid[0] * grid[1]
        self.channels = tokens == "channels"
        length, read = (width, cells) if self.channels else (cells, width)
        self.scale = math.sqrt(inner)
        self.project = nn.Sequential(nn.Linear(read, inner), nn.LayerNorm(inner), nn.GELU())
        self.class_token = nn.Parameter(torch.empty(1, 1, inner))
        self.positions = nn.Parameter(torch.empty(1, length + 1, inner))
        for parameter in (self.class_token, self.positions):
            nn.init.trunc_normal_(parameter, std=0.02)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*(_DualNormBlock(inner, heads, 4 * inner, dropout) for _ in range(depth)))
        self.head = nn.Sequential(
            nn.LayerNorm(inner),
            nn.Linear(inner, 2 * inner),
            nn.LayerNorm(2 * inner),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(2 * inner, classes),
        )

    def forward(self, embeddings: Tensor) -> Tensor:
        flat = embeddings.flatten(2)
        x = self.project(flat if self.channels else flat.transpose(1, 2)) * self.scale
        x = torch.cat([self.class_token.expand(len(x), -1, -1).to(x.dtype), x], 1) + self.positions
        logits: Tensor = self.head(self.blocks(self.dropout(x))[:, 0])
        return logits


NETWORKS: dict[str, Callable[..., nn.Module]] = {
    "CE": ConvolutionalExtractor,
    "RE": ResidualExtractor,
    "TE": TransformerExtractor,
}


def make_network(name: str, width: int, grid: tuple[int, int], classes: int, **options: int | float | str) -> nn.Module:
    """CE, RE or TE for embeddings (d, h, w) and a number of concepts."""
    if name not in NETWORKS:
        raise unknown_name("extractor", name, NETWORKS)
    if classes < 2:
        raise UserError(
            f"An extractor tells concepts apart: it needs at least two, found {classes}. Add another class or value."
        )
    if name == "CE" and min(grid) < 4:
        raise UserError(
            f"{name} pools the grid twice: it needs at least 4 × 4 tokens, found {grid[0]} × {grid[1]}. "
            "Choose --network RE or TE."
        )
    return NETWORKS[name](width, grid, classes, **options)
