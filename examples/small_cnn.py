"""A user's own model for `conceptlens decompose`: a small residual network for blood cells.

    conceptlens decompose examples/small_cnn.py:build --data blood-cells
        --layers stage1 --layers stage2 --layers stage3 --out runs/own

`build` is called without arguments and returns a torch module from images (B, 3, H, W) to logits (B, classes). Its
attributes `image_size` and `classes` are read. Pixels come from 0 to 1; this module normalizes them itself (otherwise:
`--normalize`). It trains itself for a minute when it is first asked for, and keeps its weights beside this file.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

WEIGHTS = Path(__file__).with_suffix(".safetensors")
SIZE = 64


class Block(nn.Module):
    """Two convolutions with batch norm beside a shortcut, half as large as what enters."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU())
        self.two = nn.Sequential(nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after))
        self.short = nn.Sequential(nn.Conv2d(before, after, 1, 2, bias=False), nn.BatchNorm2d(after))
        self.act = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.two(self.one(x)) + self.short(x))


class SmallCNN(nn.Module):
    """Three blocks and a linear head."""

    image_size = SIZE

    def __init__(self, classes: list[str]) -> None:
        super().__init__()
        self.classes = classes
        self.stage1, self.stage2, self.stage3 = Block(3, 24), Block(24, 48), Block(48, 96)
        self.head = nn.Linear(96, len(classes))

    def forward(self, x: Tensor) -> Tensor:
        x = (x - 0.5) / 0.25
        return self.head(self.stage3(self.stage2(self.stage1(x))).mean((2, 3)))


def build() -> SmallCNN:
    """The trained network."""
    from conceptlens.concepts import ConceptSet

    model = SmallCNN(list(ConceptSet.load("blood-cells").classes))
    if not WEIGHTS.exists():
        train(model)
        save_file(model.state_dict(), WEIGHTS)
    model.load_state_dict(load_file(WEIGHTS))
    return model


def train(model: SmallCNN, epochs: int = 4) -> None:
    """On the built-in blood cells, as plainly as it gets."""
    from conceptlens.data.images.read import resize_square
    from conceptlens.data.sources.open import open_source
    from conceptlens.recipes.parse import load_recipe

    source, _ = open_source(load_recipe({"data": "blood-cells"}).data, None)
    images = torch.stack([torch.from_numpy(resize_square(source.read(i), SIZE)) for i in range(len(source))])
    labels = torch.from_numpy(source.examples.labels)
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            logits = model(images[batch].float() / 255)
            nn.functional.cross_entropy(logits, labels[batch]).backward()
            optimizer.step()
