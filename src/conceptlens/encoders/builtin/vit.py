"""`builtin/vit`: a small vision transformer with a convolutional stem that comes trained, for machines without a hub.

Its weights were made by the recipe in the repository's `pretraining` folder; `encoders/weights/CARD.md` says from what.
`builtin/vit-mini` is the same network twenty times smaller, without weights: it learns from scratch on two CPU cores.

Register tokens (Darcet et al., Vision Transformers Need Registers, 2024) take up what a ViT would otherwise store in
patches of the background, where it would spoil the concepts' maps.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.core.files import stored
from conceptlens.encoders.builtin.conv_stem import STRIDE, ConvStem
from conceptlens.encoders.builtin.transformer_block import Block
from conceptlens.encoders.contract import Cut, Encoder, Tokens
from conceptlens.encoders.layer_choice import Layers, choose_layers, pack, run_blocks, unpack
from conceptlens.encoders.weights_file import check_package_weights, load_weights, read_weights

WEIGHTS = Path(__file__).parents[1] / "weights" / "vit.safetensors"
TEXT_WIDTH = 384  # of `builtin/text`, with whose vectors the class token is aligned
DEEPEST = 1000  # blocks; one after the other is made, so a recipe could fill the memory
MINI: dict[str, Any] = {
    "name": "builtin/vit-mini",
    "image_size": 96,
    "width": 96,
    "depth": 2,
    "heads": 3,
    "mlp_ratio": 2.0,
    "stem_width": 32,
    "text_width": 0,
}


def resize_positions(positions: Tensor, size: tuple[int, int]) -> Tensor:
    """Position vectors (1, h, w, D) on another grid, by bicubic interpolation; untouched at their own size."""
    if positions.shape[1:3] == size:
        return positions
    maps = F.interpolate(positions.permute(0, 3, 1, 2), size, mode="bicubic", align_corners=False)
    return maps.permute(0, 2, 3, 1)


class BuiltinViT(Encoder):
    """Tokens of width D on a grid of one for every 8 × 8 pixels.

    Args:
        image_size: Side in pixels for which positions are learned; other sizes interpolate them.
        width: D.
        depth: Number of blocks.
        heads: Attention heads; they share the width.
        mlp_ratio: Hidden width of a block's MLP, relative to D.
        stem_width: Channels of the stem's first convolution; the second has twice as many.
        registers: Register tokens beside the class token.
        text_width: Width of the text tower's vectors with which the class token is aligned; 0 for none.
        drop_path: Share of images that skip a branch of the last block in training; smaller in earlier blocks.
        layers: Blocks whose patches are handed on besides the last; `all`: of every one.
        final_norm: Take patches after the final norm, or before it; the class token always passes it.
        pretrained: Start from the package's trained weights where it has them; from torch's generator otherwise.
        weights: A local .safetensors file to start from instead.
        name: `builtin/vit`, the only size with weights in the package, or the name of another size.
    """

    mean = (0.5, 0.5, 0.5)
    std = (0.25, 0.25, 0.25)

    def __init__(
        self,
        *,
        image_size: int = 112,
        width: int = 256,
        depth: int = 6,
        heads: int = 4,
        mlp_ratio: float = 4.0,
        stem_width: int = 48,
        registers: int = 4,
        text_width: int = TEXT_WIDTH,
        drop_path: float = 0.0,
        layers: Layers | None = None,
        final_norm: bool = False,
        pretrained: bool = True,
        weights: str | Path | None = None,
        name: str = "builtin/vit",
    ) -> None:
        super().__init__()
        self.name = name
        least = {"image_size": STRIDE, "width": 1, "depth": 1, "heads": 1, "stem_width": 1}
        least |= {"registers": 0, "text_width": 0}
        given = (image_size, width, depth, heads, stem_width, registers, text_width)
        for (option, smallest), value in zip(least.items(), given, strict=True):
            if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
                raise UserError(f"{self.name}: {option} must be a whole number of at least {smallest}, got {value!r}.")
        if depth > DEEPEST:
            raise UserError(f"{self.name}: depth must be at most {DEEPEST:,}, got {depth}.")
        if width % heads:
            raise UserError(f"{self.name}: width must be a multiple of heads, got width {width} and {heads} heads.")
        if not _is_number(mlp_ratio) or round(width * mlp_ratio) < 1:
            raise UserError(f"{self.name}: mlp_ratio must be a positive number, got {mlp_ratio!r}.")
        if not _is_number(drop_path) or not 0 <= drop_path < 1:
            raise UserError(f"{self.name}: drop_path must be a number from 0 to below 1, got {drop_path!r}.")
        self.image_size, self.width, self.final_norm = image_size, width, final_norm
        self.layers = choose_layers(layers, depth, self.name)
        self.stem = ConvStem(stem_width, width)
        self.positions = nn.Parameter(torch.empty(1, *self.grid(image_size, image_size), width))
        self.class_token = nn.Parameter(torch.empty(1, 1, width))
        self.registers = nn.Parameter(torch.empty(1, registers, width))
        rates = [drop_path * index / max(depth - 1, 1) for index in range(depth)]
        self.trunk = nn.ModuleList(Block(width, heads, mlp_ratio, rate) for rate in rates)
        self.norm = nn.LayerNorm(width)
        self.to_text = nn.Linear(width, text_width, bias=False) if text_width else None
        if self.to_text is not None:
            self.text = "builtin/text"
        self._initialize()
        if weights is not None:
            self._load(Path(weights), "Check encoder.weights and encoder.options.")
        elif pretrained and name == "builtin/vit" and stored(WEIGHTS).exists():
            check_package_weights(WEIGHTS)
            self._load(WEIGHTS, "Leave encoder.options as they are, or set `encoder.pretrained: false`.")

    def _initialize(self) -> None:
        for token in (self.positions, self.class_token, self.registers):
            if token.numel():
                nn.init.trunc_normal_(token, std=0.02)
        for module in self.trunk.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                nn.init.zeros_(module.bias)

    def _load(self, path: Path, hint: str) -> None:
        state = read_weights(path)
        positions = state.get("positions")
        if positions is not None and positions.ndim == 4:
            state["positions"] = resize_positions(positions.float(), (self.positions.shape[1], self.positions.shape[2]))
        load_weights(self, state, source=str(path), hint=hint)

    def tokens(self, images: Tensor) -> Tokens:
        x, left = run_blocks(self._enter(images), self.trunk, self.layers)
        return self._leave(x, left, self.grid(images.shape[-2], images.shape[-1]))

    def before(self, images: Tensor, blocks: int) -> Tensor:
        first = len(self.trunk) - blocks
        return pack(*run_blocks(self._enter(images), self.trunk[:first], self.layers), first)

    def after(self, entering: Tensor, cut: Cut) -> Tokens:
        first = len(self.trunk) - cut.blocks
        x, before = unpack(entering, self.layers, first)
        x, behind = run_blocks(x, self.trunk[first:], self.layers, first)
        return self._leave(x, {**before, **behind}, cut.grid)

    def _enter(self, images: Tensor) -> Tensor:
        """Class token, registers and patches with their positions, (B, 1 + R + L, D)."""
        grid: Tensor = self.stem(images.to(self.positions.dtype))  # (B, h, w, D)
        patches = (grid + resize_positions(self.positions, (grid.shape[1], grid.shape[2]))).flatten(1, 2)
        prefix = torch.cat([self.class_token, self.registers], 1)
        return torch.cat([prefix.expand(len(images), -1, -1).to(patches.dtype), patches], 1)

    def _leave(self, x: Tensor, left: dict[int, Tensor], grid: tuple[int, int]) -> Tokens:
        """Tokens from what left the last block and the chosen ones."""
        start = 1 + self.registers.shape[1]
        chosen = [self._choose_norm(left[layer]) for layer in self.layers]
        return Tokens(
            self._choose_norm(x[:, start:]),
            grid,
            self.norm(x[:, 0]),
            tuple(layer[:, start:] for layer in chosen),
            layer_cls=tuple(layer[:, 0] for layer in chosen),
        )

    def _choose_norm(self, patches: Tensor) -> Tensor:
        return self.norm(patches) if self.final_norm else patches

    def blocks(self) -> Sequence[nn.Module]:
        return list(self.trunk)

    def tail(self) -> Sequence[nn.Module]:
        return [self.norm]

    def heads(self) -> Sequence[nn.Module]:
        return [] if self.to_text is None else [self.to_text]

    def embed(self, tokens: Tokens) -> Tensor:
        if self.to_text is None or tokens.cls is None:
            return super().embed(tokens)
        return F.normalize(self.to_text(tokens.cls), dim=-1)

    def embed_patches(self, tokens: Tokens) -> Tensor:
        if self.to_text is None:
            return super().embed_patches(tokens)
        patches = tokens.patches if self.final_norm else self.norm(tokens.patches)
        return F.normalize(self.to_text(patches), dim=-1)

    def grid(self, height: int, width: int) -> tuple[int, int]:
        return -(-height // STRIDE), -(-width // STRIDE)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
