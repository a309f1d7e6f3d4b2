"""The network of `builtin/text`: a small pre-norm transformer over word pieces; the mean of its tokens is the phrase.

Pooling and the width of the result follow its teacher, all-MiniLM-L6-v2 (Wang et al., MiniLM, 2020; Reimers and
Gurevych, Sentence-BERT, 2019).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.builtin.transformer_block import Block


class TextTower(nn.Module):
    """Piece numbers to unit vectors.

    Args:
        pieces: Size of the vocabulary.
        piece_width: Width of a piece's row in the table, which holds most of the weights.
        width: D, of the tokens.
        depth: Blocks.
        heads: Attention heads; they share the width.
        mlp_ratio: Hidden width of a block's MLP, relative to D.
        out: Width of the result.
        longest: Positions; longer phrases are cut.
    """

    def __init__(
        self,
        pieces: int,
        *,
        piece_width: int = 256,
        width: int = 256,
        depth: int = 3,
        heads: int = 4,
        mlp_ratio: float = 4.0,
        out: int = 384,
        longest: int = 64,
    ) -> None:
        super().__init__()
        if width % heads:
            raise UserError(f"Text tower: width must be a multiple of heads, got width {width} and {heads} heads.")
        sizes = {"pieces": pieces, "piece_width": piece_width, "width": width, "depth": depth, "heads": heads}
        self.sizes = {**sizes, "mlp_ratio": mlp_ratio, "out": out, "longest": longest}
        self.longest, self.width = longest, out
        self.table = nn.Embedding(pieces, piece_width)
        self.widen = nn.Linear(piece_width, width, bias=False) if piece_width != width else nn.Identity()
        self.positions = nn.Parameter(torch.empty(longest, width))
        self.norm_in = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads, mlp_ratio) for _ in range(depth))
        self.norm_out = nn.LayerNorm(width)
        self.project = nn.Linear(width, out, bias=False)
        self._initialize()

    def _initialize(self) -> None:
        nn.init.normal_(self.table.weight, std=0.1)
        nn.init.normal_(self.positions, std=0.02)
        for block in self.blocks.modules():
            if isinstance(block, nn.Linear):
                nn.init.trunc_normal_(block.weight, std=0.02)
                nn.init.zeros_(block.bias)

    def forward(self, numbers: Tensor, real: Tensor) -> Tensor:
        """Numbers (B, L) and which of them are not padding (B, L) → (B, out), unit length, fp32."""
        x = self.norm_in(self.widen(self.table(numbers)) + self.positions[: numbers.shape[1]])
        seen = real[:, None, None, :]  # no token attends to padding
        for block in self.blocks:
            x = block(x, seen)
        weight = real.unsqueeze(-1).to(x.dtype)
        mean = (self.norm_out(x) * weight).sum(1) / weight.sum(1)
        return F.normalize(self.project(mean).float(), dim=-1)
