"""The encoder's contract: image → tokens, text → unit vectors."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError


@dataclass
class Tokens:
    """What an encoder says of B images.

    All patches lie on one grid, so that layers can be read side by side: where a network's layers have grids of their
    own, it is the finest of those handed on, and a coarser layer's vector stands in each of the cells it covers. Widths
    may differ from layer to layer.
    """

    patches: Tensor  # (B, L, D), row by row over the grid
    grid: tuple[int, int]  # (h, w), L = h · w
    cls: Tensor | None = None  # (B, D): the class token, or the mean of the patches for a network without one
    layers: tuple[Tensor, ...] = ()  # patches of the layers asked for, (B, L, `Encoder.layer_widths`) each
    aux: dict[str, Tensor] = field(default_factory=dict)  # named companions, such as a second encoder's vector
    layer_cls: tuple[Tensor, ...] = ()  # class tokens of those layers, as wide, or the means of their patches

    def parts(self) -> list[Tensor]:
        """All tensors, in one order."""
        cls = [] if self.cls is None else [self.cls]
        return [self.patches, *cls, *self.layers, *self.layer_cls, *self.aux.values()]

    def with_parts(self, parts: Sequence[Tensor]) -> "Tokens":
        """The same with other tensors, in the order of `parts`."""
        rest = iter(parts)
        return Tokens(
            next(rest),
            self.grid,
            None if self.cls is None else next(rest),
            tuple(next(rest) for _ in self.layers),
            layer_cls=tuple(next(rest) for _ in self.layer_cls),
            aux={name: next(rest) for name in self.aux},
        )


def join_parts(parts: Sequence[Tensor]) -> Tensor:
    """Tensors (B, …) as one row of numbers an image, (B, 1, N): what a token store keeps."""
    return torch.cat([part.flatten(1) for part in parts], 1).unsqueeze(1)


def split_parts(stored: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """The same taken apart again, given the shapes without the batch."""
    sizes = [math.prod(shape) for shape in shapes]
    pieces = torch.split(stored.flatten(1), sizes, 1)
    return [piece.reshape(-1, *shape) for piece, shape in zip(pieces, shapes, strict=True)]


@dataclass(frozen=True)
class Cut:
    """Where an encoder is cut for a token store: before its last `blocks` blocks, on images of that grid."""

    blocks: int
    grid: tuple[int, int]


class Encoder(nn.Module, ABC):
    """Base of all image encoders. Subclasses set the attributes and implement `tokens`."""

    name: str
    width: int  # D
    image_size: int  # the side in pixels that the encoder prefers; other sizes by interpolating positions
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    text: str | None = None  # the text encoder whose vectors `embed` is aligned with, if any
    structure: str | None = None  # JSON that builds it again where its name stands for files outside of the run
    cut: Cut | None = None  # where stored tokens enter, if they may come in place of images
    layers: tuple[int, ...] = ()  # blocks whose tokens are handed on besides the last, from 0
    _like: Tokens  # what `after` makes, without numbers

    def __init__(self) -> None:
        super().__init__()
        self._scales: dict[tuple[torch.device, torch.dtype], tuple[Tensor, Tensor]] = {}  # see `normalize`
        self._stored_shapes: dict[Cut, list[tuple[int, ...]]] = {}  # see `after`

    @property
    def layer_widths(self) -> tuple[int, ...]:
        """Width of each of `layers`, in their order."""
        return (self.width,) * len(self.layers)

    @abstractmethod
    def tokens(self, images: Tensor) -> Tokens:
        """Normalized images (B, 3, H, W) → tokens."""

    @abstractmethod
    def blocks(self) -> Sequence[nn.Module]:
        """From input to output, the pieces of which the last n are trained; heads and final norms are not blocks."""

    def tail(self) -> Sequence[nn.Module]:
        """What follows the last block (a final norm) and is trained with it."""
        return ()

    def heads(self) -> Sequence[nn.Module]:
        """What no token passes through, such as the map to a text tower's space: never trained by a bottleneck."""
        return ()

    def embed(self, tokens: Tokens) -> Tensor:
        """One unit vector an image, (B, width of the text tower), comparable with those of the encoder's `text`."""
        raise UserError(
            f"{self.name} has no text tower of its own, so images cannot be compared with texts. Use builtin/vit."
        )

    def embed_patches(self, tokens: Tokens) -> Tensor:
        """A unit vector a patch, (B, L, width of the text tower): `embed`'s map, applied to each patch by itself.

        No CLIP was trained to match single patches with texts; how well they do is to be measured.
        """
        raise UserError(
            f"{self.name} has no text tower of its own, so patches cannot be compared with texts. Use builtin/vit or "
            "an open_clip/… encoder."
        )

    @abstractmethod
    def grid(self, height: int, width: int) -> tuple[int, int]:
        """The token grid (h, w) for an image of that size."""

    def normalize(self, images: Tensor) -> Tensor:
        """Images of bytes or of values in [0, 1], (B, 3, H, W), to what `tokens` expects."""
        if not images.is_floating_point():
            images = images.to(torch.get_default_dtype()).div_(255)
        mean, std = self._scale(images)
        return (images - mean) / std

    def _scale(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation of the channels, (1, 3, 1, 1), where the images are.

        They are kept: made anew for each batch, they would have to be sent to a GPU, which would finish its work first.
        """
        key = (images.device, images.dtype)
        found = self._scales.get(key)
        if found is None:
            with torch.inference_mode(False):
                values = torch.tensor((self.mean, self.std), device=images.device, dtype=images.dtype)
                found = values[0].view(1, 3, 1, 1), values[1].view(1, 3, 1, 1)
            if not torch.compiler.is_compiling():
                self._scales[key] = found
        return found

    def before(self, images: Tensor, blocks: int) -> Tensor:
        """Normalized images → what enters the last `blocks` blocks, (B, N, D); 0: what leaves the last one.

        Where layers that lie before are handed on, their tokens follow: see `layer_choice`. Any encoder keeps its
        tokens with 0 blocks; one that can be cut between its blocks is a `ReplayEncoder`, or knows how by itself.
        """
        if blocks:
            raise self._cannot_cut()
        return join_parts(self.tokens(images).parts())

    def after(self, entering: Tensor, cut: Cut) -> Tokens:
        """What `before` returned → tokens, as `tokens` would have given."""
        if cut.blocks:
            raise self._cannot_cut()
        like: list[Tokens] = []

        def probe(image: Tensor) -> list[Tensor]:
            like.append(self.tokens(image))
            return like[0].parts()

        shapes = self._part_shapes(cut, probe)
        if like:
            self._like = like[0].with_parts([part.new_empty(0) for part in like[0].parts()])
        return self._like.with_parts(split_parts(entering, shapes))

    def _part_shapes(self, cut: Cut, probe: Callable[[Tensor], list[Tensor]]) -> list[tuple[int, ...]]:
        """Shapes of what is stored of an image, seen once for each cut."""
        if cut not in self._stored_shapes:
            size = self.image_size
            if self.grid(size, size) != cut.grid:
                raise UserError(f"{self.name}: tokens on a grid of {cut.grid} are not those of {size} pixels.")
            was_training, parameter = self.training, next(self.parameters())
            self.eval()
            try:
                with torch.no_grad():
                    parts = probe(torch.zeros(1, 3, size, size, dtype=parameter.dtype, device=parameter.device))
            finally:
                self.train(was_training)
            self._stored_shapes[cut] = [tuple(part.shape[1:]) for part in parts]
        return self._stored_shapes[cut]

    def _cannot_cut(self) -> UserError:
        return UserError(
            f"encoder.store: {self.name} cannot be cut between its blocks. Set encoder.train to none, or leave "
            "encoder.store empty."
        )

    def forward(self, images: Tensor) -> Tokens:
        """Images (B, 3, H, W) of bytes or in [0, 1] → tokens."""
        return self.tokens(self.normalize(images))

    def from_stored(self, entering: Tensor) -> Tokens:
        """What a token store keeps of images, (B, N, D), → tokens; a `cut` says where it enters."""
        if self.cut is None:
            raise UserError(f"{self.name}: stored tokens came, but the encoder was not cut for them: a bug.")
        return self.after(entering.float(), self.cut)

    def encode(self, inputs: Tensor) -> Tokens:
        """Images or, while the encoder is cut, what a store keeps of them: whatever a reader of the session hands out.

        This is the only place that tells them apart.
        """
        return self.from_stored(inputs) if self.cut is not None and inputs.ndim == 3 else self(inputs)

    def train(self, mode: bool = True) -> Self:
        """Training mode for what learns; frozen parts stay as they are tested, their batch norms and dropouts still."""
        super().train(mode)
        if mode:
            _rest(self)
        return self


def _rest(module: nn.Module) -> None:
    """Evaluation mode for every part none of whose parameters learns."""
    learns = [parameter.requires_grad for parameter in module.parameters()]
    if learns and not any(learns):
        module.eval()
        return
    for child in module.children():
        _rest(child)


class TextEncoder(Protocol):
    """English phrases to unit vectors."""

    name: str
    width: int

    def embed(self, texts: Sequence[str]) -> Tensor:
        """(n, width), unit length, fp32, on the CPU; deterministic."""
        ...
