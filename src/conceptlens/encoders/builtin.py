"""`builtin/vit`: a small vision transformer with a convolutional stem, made to learn on two CPU cores.

Register tokens (Darcet et al., Vision Transformers Need Registers, 2024) take up what a ViT would otherwise store in
patches of the background, where it would spoil the concepts' maps.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.encoders.contract import Encoder, Tokens
from conceptlens.encoders.conv_stem import STRIDE, ConvStem
from conceptlens.encoders.layer_choice import choose_layers
from conceptlens.encoders.transformer_block import Block
from conceptlens.encoders.weights_file import load_weights, read_weights
from conceptlens.errors import UserError
from conceptlens.files import read_json

WEIGHTS = Path(__file__).with_name("weights") / "vit.safetensors"


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
        drop_path: Share of images that skip a branch of the last block in training; smaller in earlier blocks.
        layers: Blocks whose patches are handed on besides the last.
        final_norm: Take patches after the final norm, or before it; the class token always passes it.
        pretrained: Start from the package's trained weights where it has them; from torch's generator otherwise.
        weights: A local .safetensors file to start from instead.
    """

    name = "builtin/vit"
    mean = (0.5, 0.5, 0.5)
    std = (0.25, 0.25, 0.25)

    def __init__(
        self,
        *,
        image_size: int = 96,
        width: int = 96,
        depth: int = 2,
        heads: int = 3,
        mlp_ratio: float = 2.0,
        stem_width: int = 32,
        registers: int = 4,
        drop_path: float = 0.0,
        layers: Sequence[int] | None = None,
        final_norm: bool = False,
        pretrained: bool = True,
        weights: str | Path | None = None,
    ) -> None:
        super().__init__()
        least = {"image_size": STRIDE, "width": 1, "depth": 1, "heads": 1, "stem_width": 1, "registers": 0}
        given = (image_size, width, depth, heads, stem_width, registers)
        for (option, smallest), value in zip(least.items(), given, strict=True):
            if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
                raise UserError(f"{self.name}: {option} must be a whole number of at least {smallest}, got {value!r}.")
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
        self._initialise()
        if weights is not None:
            self._load(Path(weights), "Check encoder.weights and encoder.options.")
        elif pretrained and WEIGHTS.exists():
            check_package_weights(WEIGHTS)
            self._load(WEIGHTS, "Leave encoder.options as they are, or set `encoder.pretrained: false`.")

    def _initialise(self) -> None:
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
        grid: Tensor = self.stem(images.to(self.positions.dtype))  # (B, h, w, D)
        size = (grid.shape[1], grid.shape[2])
        patches = (grid + resize_positions(self.positions, size)).flatten(1, 2)
        prefix = torch.cat([self.class_token, self.registers], 1)
        start = prefix.shape[1]
        x = torch.cat([prefix.expand(len(images), -1, -1).to(patches.dtype), patches], 1)
        outputs = []
        for block in self.trunk:
            x = block(x)
            outputs.append(x)
        handed_on = [self._choose_norm(outputs[layer][:, start:]) for layer in self.layers]
        return Tokens(self._choose_norm(x[:, start:]), size, self.norm(x[:, 0]), tuple(handed_on))

    def _choose_norm(self, patches: Tensor) -> Tensor:
        return self.norm(patches) if self.final_norm else patches

    def blocks(self) -> Sequence[nn.Module]:
        return list(self.trunk)

    def tail(self) -> Sequence[nn.Module]:
        return [self.norm]

    def grid(self, height: int, width: int) -> tuple[int, int]:
        return -(-height // STRIDE), -(-width // STRIDE)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_package_weights(path: Path) -> None:
    """The package's weights must be those its JSON names: a damaged or swapped file is refused."""
    expected = str(read_json(path.with_suffix(".json")).get("sha256"))
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected:
        raise UserError(
            f"{path}: expected sha256 {expected}, found {found}: the file is damaged. "
            "Install conceptlens again, or set `encoder.pretrained: false`."
        )
