"""A VQ model small enough to work out by hand: each token is one flat color of a 4 × 4 pixel cell."""

from pathlib import Path

import torch
from torch import Tensor

from conceptlens.core.errors import unknown_name
from conceptlens.cortex.generators.builtin.generator import SmallGenerator, save_generator
from conceptlens.cortex.generators.builtin.settings import GeneratorSettings
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.contract import VQModel

CODES, WIDTH, GRID, CELL = 12, 6, (8, 8), 4


class TinyVQ(VQModel):
    """Codes hold a color in their first three channels; class k is drawn with codes 2k and 2k + 1 in the middle."""

    name = "tiny"
    image_size = GRID[0] * CELL
    grid = GRID
    generates = True
    classes = ("red", "green", "blue")
    attributes = {"size": ("small", "big")}  # noqa: RUF012

    def __init__(self, seed: int = 0, share_big: float = 0.5) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.codes = torch.nn.Parameter(torch.rand(CODES, WIDTH, generator=generator))
        self.share_big = share_big

    @property
    def codebook(self) -> Tensor:
        return self.codes

    def encode(self, images: Tensor) -> Tensor:
        cells = images.unfold(2, CELL, CELL).unfold(3, CELL, CELL).mean((-1, -2))  # (B, 3, h, w)
        colors = self.codes[:, :3].detach()
        distance = (cells.movedim(1, -1)[..., None, :] - colors).square().sum(-1)
        return distance.argmin(-1)

    def decode_embeddings(self, embeddings: Tensor) -> Tensor:
        return embeddings[:, :3].repeat_interleave(CELL, 2).repeat_interleave(CELL, 3).clamp(0, 1)

    def generate(self, condition: Condition | None, n: int, *, seed: int = 0) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        grids = torch.randint(8, CODES, (n, *GRID), generator=generator)  # background: codes 8 to 11
        for index in range(n):
            kind = torch.randint(3, (1,), generator=generator).item()
            if condition is not None and condition.class_name is not None:
                if condition.class_name not in self.classes:
                    raise unknown_name("class", condition.class_name, self.classes)
                kind = self.classes.index(condition.class_name)
            big = torch.rand(1, generator=generator).item() < self.share_big
            if condition is not None and "size" in condition.attributes:
                big = condition.attributes["size"] == "big"
            reach = 2 if big else 1
            middle = slice(4 - reach, 4 + reach)
            inner = 2 * int(kind) + torch.randint(2, (2 * reach, 2 * reach), generator=generator)
            grids[index, middle, middle] = inner
            if big:  # a frame that only big ones have
                grids[index, 0, :] = 6
            else:
                grids[index, 7, :] = 7
        return grids


def small_settings(*shapes: str, side: int) -> GeneratorSettings:
    """A small network of these classes in two sizes."""
    network = {"channels": (4, 8, 8), "codes": 24, "width": 8, "transformer_width": 16, "depth": 1, "heads": 2}
    return GeneratorSettings(shapes, {"size": ("small", "big")}, image_size=side, **network)  # type: ignore[arg-type]


def save_small_generator(folder: Path, *shapes: str, side: int, name: str = "tiny", seed: int = 0) -> Path:
    """An untrained generator of these classes in two sizes, whose conditions matter all the same."""
    settings = small_settings(*shapes, side=side)
    torch.manual_seed(seed)
    generator = SmallGenerator(settings, name)
    torch.nn.init.normal_(generator.transformer.conditions, std=2.0)
    save_generator(generator, folder, data="none")
    return folder
