"""Vector quantization with a codebook that follows the data (van den Oord et al., 2017, with running means).

Codes are running means of the vectors that chose them. A code whose running count falls below a share of an even one is
dead: it moves to a vector of the batch, so that the whole codebook stays in use.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from conceptlens.cortex.generators.contract import nearest_tokens
from conceptlens.nn.quantization.clusters import kmeans


@dataclass(frozen=True)
class Quantized:
    """What a batch became."""

    embeddings: Tensor  # (B, d, h, w): codes, with the gradient straight through to the encoder
    tokens: Tensor  # (B, h, w)
    commitment: Tensor  # ‖z − sg(e)‖², mean


class Quantizer(nn.Module):
    """A codebook (K, d).

    Args:
        codes: K.
        width: d.
        decay: Of the running means.
        dead: A code is dead below this share of an even count.
    """

    def __init__(self, codes: int, width: int, *, decay: float = 0.95, dead: float = 0.1) -> None:
        super().__init__()
        self.decay, self.dead = decay, dead
        self.register_buffer("codebook", torch.randn(codes, width))
        self.register_buffer("counts", torch.zeros(codes))  # running; all zero before the first batch
        self.register_buffer("sums", torch.zeros(codes, width))
        self.codebook: Tensor
        self.counts: Tensor
        self.sums: Tensor

    def forward(self, z: Tensor) -> Quantized:
        with torch.autocast(z.device.type, enabled=False):  # rounded distances would choose other codes
            return self._quantize(z.float())

    def _quantize(self, z: Tensor) -> Quantized:
        vectors = z.movedim(1, -1).reshape(-1, self.codebook.shape[1])
        if self.training and not bool(self.counts.any()):
            self._start(vectors.detach())
        tokens = nearest_tokens(z.detach(), self.codebook)
        codes = self.codebook[tokens].movedim(-1, 1)
        if self.training:
            self._follow(vectors.detach(), tokens.flatten())
        return Quantized(z + (codes - z).detach(), tokens, (z - codes).square().mean())

    @torch.no_grad()
    def _start(self, vectors: Tensor) -> None:
        self.codebook.copy_(kmeans(vectors, len(self.codebook)))
        self.counts.fill_(len(vectors) / len(self.codebook))
        self.sums.copy_(self.codebook * self.counts[:, None])

    @torch.no_grad()
    def _follow(self, vectors: Tensor, chosen: Tensor) -> None:
        counts = torch.bincount(chosen, minlength=len(self.codebook)).to(vectors)
        sums = torch.zeros_like(self.sums).index_add_(0, chosen, vectors)
        self.counts.lerp_(counts, 1 - self.decay)
        self.sums.lerp_(sums, 1 - self.decay)
        self.revive(vectors)
        self.codebook.copy_(self.sums / self.counts[:, None].clamp(min=1e-6))

    @torch.no_grad()
    def revive(self, vectors: Tensor) -> int:
        """Move dead codes to vectors (N, d) drawn from the batch; returns how many there were."""
        even = self.counts.sum() / len(self.counts)
        dead = (self.counts < self.dead * even).nonzero()[:, 0]
        if not len(dead):
            return 0
        drawn = vectors[torch.randint(len(vectors), (len(dead),), device=vectors.device)]
        # A small count of its own: a moved code must be chosen soon, or it moves again.
        self.counts[dead] = 2 * self.dead * even
        self.sums[dead] = drawn * self.counts[dead, None]
        return len(dead)
