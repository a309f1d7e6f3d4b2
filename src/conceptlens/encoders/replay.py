"""Encoders cut between their blocks without knowing how they pass tokens on: what left the blocks before is replayed.

What is stored of an image is what left the last block before the cut, and the blocks whose layers are handed on, one
after the other as a row of numbers. To go on from there the encoder is called as ever, on an empty image. Each block
before the cut hands back what was stored of it, or what it was given. The network's own code does the rest, so that
rotary positions, windows and norms are those of a live pass. `check_cut` compares both before any work begins.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Cut, Encoder, Tokens, join_parts, split_parts

TOLERANCE = 1e-4  # relative to the tokens' size


class _Reached(Exception):
    """The last block before the cut has been seen; what follows need not be computed."""


class ReplayEncoder(Encoder):
    """An encoder whose blocks follow each other, each with one tensor that enters and one that leaves."""

    def layer_block(self, layer: int) -> int | None:
        """The block whose output a layer of `layers` is; None where it is no block's."""
        return layer

    def before(self, images: Tensor, blocks: int) -> Tensor:
        if not blocks:
            return super().before(images, blocks)
        kept = self._kept(blocks)
        values = self._values(images, kept)
        return join_parts([values[number] for number in kept])

    def after(self, entering: Tensor, cut: Cut) -> Tokens:
        if not cut.blocks:
            return super().after(entering, cut)
        kept = self._kept(cut.blocks)
        dtype = next(self.parameters()).dtype
        parts = split_parts(entering.to(dtype), self._shapes(cut, kept))
        empty = entering.new_zeros(1, 3, self.image_size, self.image_size, dtype=dtype)
        with _standing_in(self.blocks()[: kept[-1] + 1], dict(zip(kept, parts, strict=True))):
            return self.tokens(empty.expand(len(entering), -1, -1, -1))

    def _kept(self, blocks: int) -> list[int]:
        """Blocks whose outputs are stored: those of layers before the cut, and the last before it."""
        first = len(self.blocks()) - blocks
        if first < 1:
            raise UserError(
                f"encoder.store: with all {len(self.blocks())} blocks of {self.name} learning, nothing but its stem "
                f"could be stored. Set encoder.train to {len(self.blocks()) - 1} or fewer, or leave encoder.store "
                "empty."
            )
        kept = {first - 1}
        for layer in self.layers:
            block = self.layer_block(layer)
            if block is None:
                raise UserError(
                    f"encoder.store: layer {layer} of {self.name} comes before its first block and cannot be stored. "
                    "Leave it out of encoder.layers, or leave encoder.store empty."
                )
            if block < first:
                kept.add(block)
        return sorted(kept)

    def _values(self, images: Tensor, kept: Sequence[int]) -> dict[int, Tensor]:
        """What leaves these blocks."""
        values: dict[int, Tensor] = {}
        with ExitStack() as stack:
            for number in kept:

                def look(_: nn.Module, __: Any, value: Any, number: int = number) -> None:
                    if not isinstance(value, Tensor):
                        raise UserError(
                            f"encoder.store: block {number} of {self.name} returns {type(value).__name__}, not a "
                            "tensor, so that it cannot be cut there. Set encoder.train to none, or leave encoder.store "
                            "empty."
                        )
                    values[number] = value.clone()  # later blocks may work in place
                    if number == kept[-1]:
                        raise _Reached

                stack.callback(self.blocks()[number].register_forward_hook(look).remove)
            with suppress(_Reached):
                self.tokens(images)
        if any(number not in values for number in kept):
            raise self._cannot_cut()  # what looks like a block is not called by itself
        return values

    def _shapes(self, cut: Cut, kept: Sequence[int]) -> list[tuple[int, ...]]:
        def probe(image: Tensor) -> list[Tensor]:
            values = self._values(image, kept)
            return [values[number] for number in kept]

        return self._part_shapes(cut, probe)


@contextmanager
def _standing_in(blocks: Sequence[nn.Module], values: Mapping[int, Tensor]) -> Iterator[None]:
    """While it lasts, each block hands back its stored value, or the tensor that it is given."""

    def stand_in(number: int) -> Any:
        def forward(*args: Any, **kwargs: Any) -> Any:
            return values[number] if number in values else args[0] if args else next(iter(kwargs.values()))

        return forward

    try:
        for number, block in enumerate(blocks):
            block.forward = stand_in(number)
        yield
    finally:
        for block in blocks:
            block.__dict__.pop("forward", None)


@torch.no_grad()
def check_cut(encoder: Encoder, blocks: int, image_size: int) -> None:
    """Refuse an encoder that says something else from stored tokens than from images; one drawn image is tried."""
    if image_size != encoder.image_size:
        raise UserError(f"encoder.store: {encoder.name} was built for {encoder.image_size} pixels, not {image_size}.")
    was_training, parameter = encoder.training, next(encoder.parameters())
    encoder.eval()
    try:
        image = torch.rand(1, 3, image_size, image_size, generator=torch.Generator().manual_seed(0)).to(parameter)
        live = encoder.tokens(encoder.normalize(image))
        stored = encoder.before(encoder.normalize(image), blocks)
        again = encoder.after(stored, Cut(blocks, live.grid))
    finally:
        encoder.train(was_training)
    for one, other in zip(live.parts(), again.parts(), strict=True):
        if not torch.allclose(one, other, rtol=0, atol=TOLERANCE * float(one.abs().max().clamp_min(1e-6))):
            raise UserError(
                f"encoder.store: {encoder.name} cannot be cut before its last {blocks} blocks: a later part reads what "
                "lies before. Set encoder.train to none, or leave encoder.store empty."
            )
