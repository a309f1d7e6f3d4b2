"""Which blocks' tokens are handed on besides the last, and how they are kept where tokens are stored.

What is stored of an image is what enters the blocks behind the cut, followed by the tokens of the chosen layers before
it, (B, N · (1 + layers), D). The layer right before the cut is what enters: it is not kept twice.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError

Layers = Literal["all", "several"] | Sequence[int]


def choose_layers(layers: Layers | None, count: int, encoder: str) -> tuple[int, ...]:
    """Indices from 0 (or from the end if negative) as indices from 0, in the order given.

    `all`: every block's; `several`: half way and at two thirds of the depth, for methods that read the last besides.
    """
    if layers == "all":
        return tuple(range(count))
    if layers == "several":
        return tuple(sorted({max(round(count * share), 1) - 1 for share in (1 / 2, 2 / 3)} - {count - 1}))
    chosen = []
    for layer in layers or ():
        if isinstance(layer, bool) or not isinstance(layer, int) or not -count <= layer < count:
            raise UserError(
                f"encoder.layers: expected `all`, `several`, or whole numbers from {-count} to {count - 1}, "
                f"got {layer!r}: {encoder} has {count} blocks."
            )
        chosen.append(layer % count)
    return tuple(chosen)


def last_of_stride(strides: Sequence[int], stride: int = 16) -> tuple[int, ...]:
    """`several` for a network of stages: the last of that stride but the last of all; none where there is none."""
    return tuple([layer for layer, its in enumerate(strides[:-1]) if its == stride][-1:])


def run_blocks(
    x: Tensor, blocks: Iterable[nn.Module], layers: Sequence[int], first: int = 0
) -> tuple[Tensor, dict[int, Tensor]]:
    """Through the blocks, of which the first is number `first`; what leaves the last, and what left the chosen ones."""
    left: dict[int, Tensor] = {}
    for number, block in enumerate(blocks, first):
        x = block(x)
        if number in layers:
            left[number] = x
    return x, left


def on_grid(maps: Tensor, grid: tuple[int, int]) -> Tensor:
    """Maps (B, D, h, w) as patches (B, L, D) of a grid at least as fine: a cell's vector stands in all it covers."""
    if tuple(maps.shape[-2:]) != grid:
        maps = F.interpolate(maps, grid, mode="nearest")
    return maps.flatten(2).transpose(1, 2)


def pack(entering: Tensor, left: dict[int, Tensor], first: int) -> Tensor:
    """What is stored before block `first`: what enters it, (B, N, D), and what left the chosen blocks before it."""
    return torch.cat([entering, *(left[number] for number in sorted(left) if number < first - 1)], 1)


def unpack(stored: Tensor, layers: Sequence[int], first: int) -> tuple[Tensor, dict[int, Tensor]]:
    """The same taken apart again."""
    before = sorted({layer for layer in layers if layer < first - 1})
    entering, *rest = stored.chunk(1 + len(before), 1)
    left = dict(zip(before, rest, strict=True))
    return entering, {**left, first - 1: entering} if first - 1 in layers else left
