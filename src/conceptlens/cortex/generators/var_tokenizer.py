"""VAR's tokenizer (Tian et al., Visual autoregressive modeling, 2024): residual quantization over several scales.

An image is token maps of 1 × 1 to 16 × 16. Each scale quantizes what the coarser ones left over: f̂ = Σ_k φ_k(up(z_k)),
with φ_k(x) = (x + conv(x)) / 2 shared by neighboring scales. The contract knows one grid an image, so the maps stand in
one row of Σ s² tokens, coarse to fine; `places` says what each covers.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.contract import nearest_tokens
from conceptlens.cortex.generators.vqgan import VQGAN

MARK = "quantize.ema_vocab_hit_SV"  # a record of training that only this tokenizer keeps
SCALES = {16: (1, 2, 3, 4, 5, 6, 8, 10, 13, 16), 32: (1, 2, 3, 4, 6, 9, 13, 18, 24, 32)}  # as published, by finest grid
PHI = re.compile(r"quantize\.quant_resi\.(?:qresi_ls\.|qresi\.)?(?:(\d+)\.)?(weight|bias)$")


def vqgan_layout(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under VQGAN's names; queries, keys and values are one tensor in the file."""
    renamed: dict[str, Tensor] = {}
    for name, value in state.items():
        if ".qkv." in name:
            for part, some in zip("qkv", value.chunk(3), strict=True):
                renamed[name.replace(".qkv.", f".{part}.")] = some
        elif not name.startswith(("quantize.quant_resi.", MARK)):
            renamed[name] = value
    return renamed


def phi_of(scale: int, scales: int, layers: int) -> int:
    """Which of the φ layers a scale uses: the nearest of evenly spaced ticks to its share of the way."""
    edge = 1 / (3 if layers == 4 else 2) / layers
    ticks = np.linspace(edge, 1 - edge, layers)  # numpy, as the release: the third of ten scales lies between two ticks
    return int(np.abs(ticks - scale / max(1, scales - 1)).argmin())


class VARTokenizer(VQGAN):
    """The multi-scale tokenizer.

    Args:
        state: Its tensors.
        source: The file.
        image_size: Side in pixels.
        scales: Sides of the token maps, coarse to fine; by default the published ones of this image size.
    """

    def __init__(
        self, state: Mapping[str, Tensor], source: str, image_size: int = 256, *, scales: Sequence[int] | None = None
    ) -> None:
        super().__init__(vqgan_layout(state), source, image_size)
        self.finest = self.grid[0]
        scales = scales or SCALES.get(self.finest)
        if scales is None:
            known = ", ".join(str(image_size // self.finest * side) for side in SCALES)
            raise UserError(f"{source}: no published scales for images of {image_size} pixels; choose {known}.")
        if scales[-1] != self.finest:
            raise UserError(
                f"{source}: its finest token map has {scales[-1]} × {scales[-1]} tokens, an image of {image_size} "
                f"pixels {self.finest} × {self.finest}. Choose --image-size {image_size // self.finest * scales[-1]}."
            )
        self.scales = tuple(scales)
        self.grid = (1, sum(side * side for side in self.scales))
        parts = {(int(match[1] or 0), match[2]): state[name] for name in state if (match := PHI.match(name))}
        layers = 1 + max((place for place, _ in parts), default=-1)
        if not layers:
            raise UserError(f"{source}: expected the tensors of VAR's tokenizer; quantize.quant_resi is missing.")
        width = self.codebook.shape[1]
        self.phi = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(layers))
        for (place, kind), value in parts.items():
            getattr(self.phi[place], kind).data.copy_(value.float())
        self.requires_grad_(False)

    def scale_parts(self, row: Tensor) -> list[Tensor]:
        """(…, 1, Σ s²) → the maps (…, s, s) of all scales."""
        maps = torch.split(row.squeeze(-2), [side * side for side in self.scales], -1)
        return [part.reshape(*part.shape[:-1], side, side) for part, side in zip(maps, self.scales, strict=True)]

    def added(self, scale: int, codes: Tensor) -> Tensor:
        """What the codes (B, d, s, s) of a scale add to f̂, (B, d, h, w)."""
        if self.scales[scale] != self.finest:
            codes = F.interpolate(codes, (self.finest, self.finest), mode="bicubic")
        phi = self.phi[phi_of(scale, len(self.scales), len(self.phi))]
        step: Tensor = (codes + phi(codes)) / 2
        return step

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        rest, rows = self.vectors(images), []
        for scale, side in enumerate(self.scales):
            seen = rest if side == self.finest else F.interpolate(rest, (side, side), mode="area")
            tokens = nearest_tokens(seen, self.codebook)
            rest = rest - self.added(scale, self.codebook[tokens].movedim(-1, 1))
            rows.append(tokens.flatten(1))
        return torch.cat(rows, 1)[:, None]

    def decode_embeddings(self, embeddings: Tensor) -> Tensor:
        maps = self.scale_parts(embeddings)
        total = torch.stack([self.added(scale, codes) for scale, codes in enumerate(maps)]).sum(0)
        return super().decode_embeddings(total)

    def places(self, marked: Tensor) -> Tensor:
        """A cell of the finest map is covered where a token of any scale over it is marked."""
        side = (self.finest, self.finest)
        maps = [F.interpolate(part[:, None].float(), side, mode="nearest")[:, 0] for part in self.scale_parts(marked)]
        return torch.stack(maps).amax(0) > 0
