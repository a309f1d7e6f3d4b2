"""`builtin/efficientnet-lite0`: a small convolutional network that learned ImageNet, for photographs.

Its weights are the TensorFlow authors', converted by `pretraining.efficientnet_lite0`: `encoders/weights/CARD.md`.
Stages are its blocks. Patches are the 1,280 channels from which ImageNet's classes are read, one token for every
32 × 32 pixels; `encoder.layers` hands on stages besides, and then all tokens lie on the finest grid among them.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import prod
from operator import mul
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.builtin.inverted_residual import LITE0, SameConv2d, make_stage
from conceptlens.encoders.contract import Cut, Encoder, Tokens
from conceptlens.encoders.layer_choice import Layers, choose_layers, last_of_stride, on_grid, run_blocks
from conceptlens.encoders.weights_file import check_package_weights, load_weights, read_weights

WEIGHTS = Path(__file__).parents[1] / "weights" / "efficientnet-lite0.safetensors"
STEM_WIDTH, HEAD_WIDTH = 32, 1280
WIDTHS = (STEM_WIDTH, *(stage.width for stage in LITE0))  # of what enters stage n
STRIDES = tuple(accumulate((stage.stride for stage in LITE0), mul, initial=2))  # pixels a cell of what enters stage n
LAST = STRIDES[-1]
COARSE = 16  # `layers: all` hands on the stages of this stride and above


class EfficientNetLite0(Encoder):
    """Tokens of 1,280 channels on a grid of one for every 32 × 32 pixels, or finer where finer stages are handed on.

    Args:
        image_size: Side in pixels, a multiple of 32.
        layers: Stages whose maps are handed on besides, from 0 to 6; `all`: those of strides 16 and 32,
            `several`: the last of stride 16.
        final_norm: Without effect: the network has no final norm.
        pretrained: Start from the package's ImageNet weights; from torch's generator otherwise.
        weights: A local .safetensors file to start from instead.
    """

    name = "builtin/efficientnet-lite0"
    mean = (127 / 255, 127 / 255, 127 / 255)
    std = (128 / 255, 128 / 255, 128 / 255)
    width = HEAD_WIDTH

    def __init__(
        self,
        *,
        image_size: int = 224,
        layers: Layers | None = None,
        final_norm: bool = False,
        pretrained: bool = True,
        weights: str | Path | None = None,
    ) -> None:
        super().__init__()
        if isinstance(image_size, bool) or not isinstance(image_size, int):
            raise UserError(f"encoder.image_size: expected a whole number, got {image_size!r}.")
        count = len(LITE0)
        coarse = [stage for stage in range(count) if STRIDES[stage + 1] >= COARSE]
        chosen = {"all": coarse, "several": last_of_stride(STRIDES[1:])}.get(str(layers), layers)
        self.layers = choose_layers(chosen, count, self.name)
        self.stride = min([LAST, *(STRIDES[layer + 1] for layer in self.layers)])  # pixels a token
        self.grid(image_size, image_size)
        self.image_size, self.final_norm = image_size, final_norm
        self.stem = SameConv2d(3, STEM_WIDTH, 3, stride=2)
        self.stages = nn.ModuleList(make_stage(stage, width) for stage, width in zip(LITE0, WIDTHS, strict=False))
        self.head = SameConv2d(WIDTHS[-1], HEAD_WIDTH, 1)
        if weights is not None:
            load_weights(self, read_weights(Path(weights)), source=str(weights), hint="Check encoder.weights.")
        elif pretrained:
            check_package_weights(WEIGHTS)
            load_weights(self, read_weights(WEIGHTS), source=str(WEIGHTS), hint="Install conceptlens again.")
        else:
            self._initialize()

    def _initialize(self) -> None:
        for module in self.modules():
            if isinstance(module, SameConv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]

    @property
    def layer_widths(self) -> tuple[int, ...]:
        return tuple(WIDTHS[layer + 1] for layer in self.layers)

    def grid(self, height: int, width: int) -> tuple[int, int]:
        for side in (height, width):
            if side < LAST or side % LAST:
                near = max(LAST, side // LAST * LAST)
                raise UserError(
                    f"{self.name}: expected images whose sides are multiples of {LAST} pixels, got {height} × {width}. "
                    f"Set encoder.image_size, for example to {near} or {near + LAST}."
                )
        return height // self.stride, width // self.stride

    def tokens(self, images: Tensor) -> Tokens:
        grid = self.grid(images.shape[-2], images.shape[-1])
        return self._leave(*run_blocks(self._enter(images), self.stages, self.layers), grid)

    def before(self, images: Tensor, blocks: int) -> Tensor:
        """Maps of several widths and grids in one row, (B, 1, N): what enters stage `first`, then chosen layers."""
        first = len(self.stages) - blocks
        entering, left = run_blocks(self._enter(images), self.stages[:first], self.layers)
        kept = [entering, *(left[layer] for layer in self._stored_layers(first))]
        return torch.cat([maps.flatten(1) for maps in kept], 1).unsqueeze(1)

    def after(self, entering: Tensor, cut: Cut) -> Tokens:
        first = len(self.stages) - cut.blocks
        layers = self._stored_layers(first)
        shapes = [self._shape(number, cut.grid) for number in (first, *(layer + 1 for layer in layers))]
        parts = torch.split(entering[:, 0].to(self.head.weight.dtype), [prod(shape) for shape in shapes], 1)
        x, *rest = (_channels_last(part.reshape(-1, *shape)) for part, shape in zip(parts, shapes, strict=True))
        left = {**dict(zip(layers, rest, strict=True)), first - 1: x}
        x, behind = run_blocks(x, self.stages[first:], self.layers, first)
        return self._leave(x, {**left, **behind}, cut.grid)

    def _stored_layers(self, first: int) -> list[int]:
        """Layers that a store keeps beside what enters stage `first`, which is the layer before it."""
        return sorted({layer for layer in self.layers if layer < first - 1})

    def _shape(self, stage: int, grid: tuple[int, int]) -> tuple[int, int, int]:
        """(C, h, w) of what enters a stage, on images whose tokens lie on that grid."""
        h, w = (side * self.stride // STRIDES[stage] for side in grid)
        return WIDTHS[stage], h, w

    def _enter(self, images: Tensor) -> Tensor:
        # Channels-last input is enough for the fast kernels; weights keep the plain order in which files store them.
        return F.relu6(self.stem(_channels_last(images.to(self.stem.weight.dtype))))

    def _leave(self, x: Tensor, left: dict[int, Tensor], grid: tuple[int, int]) -> Tokens:
        patches = on_grid(F.relu6(self.head(x)), grid)
        layers = tuple(on_grid(left[layer], grid) for layer in self.layers)
        return Tokens(patches, grid, patches.mean(1), layers, layer_cls=tuple(layer.mean(1) for layer in layers))

    def blocks(self) -> Sequence[nn.Module]:
        return list(self.stages)

    def tail(self) -> Sequence[nn.Module]:
        return [self.head]


def _channels_last(maps: Tensor) -> Tensor:
    return maps.contiguous(memory_format=torch.channels_last)
