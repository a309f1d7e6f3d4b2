"""Sizes of the generator: everything that its weights' shapes follow from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from conceptlens.core.errors import UserError

MOST_CODES, MOST_WIDTH = 1024, 64


@dataclass(frozen=True)
class GeneratorSettings:
    """Defaults make a 16 × 16 grid of 128-pixel images and about 11 MB in fp16."""

    classes: tuple[str, ...]
    attributes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    image_size: int = 128
    channels: tuple[int, ...] = (32, 64, 128, 128)  # of each resolution, finest first; each next one is half the side
    codes: int = MOST_CODES  # K
    width: int = MOST_WIDTH  # d
    transformer_width: int = 256
    depth: int = 4
    heads: int = 4

    def __post_init__(self) -> None:
        if not self.classes:
            raise UserError("The generator needs at least one class.")
        if not 2 <= self.codes <= MOST_CODES or not 1 <= self.width <= MOST_WIDTH:
            raise UserError(
                f"The codebook may have 2 to {MOST_CODES} codes of width 1 to {MOST_WIDTH}; found {self.codes} of "
                f"width {self.width}."
            )
        if len(self.channels) < 2 or self.image_size % self.stride:
            raise UserError(f"image_size must be a multiple of {self.stride}, found {self.image_size}.")
        if self.transformer_width % self.heads:
            raise UserError(f"transformer_width must be a multiple of heads ({self.heads}).")

    @property
    def stride(self) -> int:
        """Pixels a side of a token."""
        return int(2 ** (len(self.channels) - 1))

    @property
    def grid(self) -> tuple[int, int]:
        side = self.image_size // self.stride
        return side, side
