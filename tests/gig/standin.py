"""A network of two convolutions and a linear head, cut at its two layers by hand."""

from typing import ClassVar

import torch
from torch import Tensor, nn


class StandIn:
    """What `network.Network` offers, for a network small enough to follow: `one` (5 channels), `two` (6), 3 classes."""

    layers = ("one", "two")
    grids: ClassVar[dict[str, tuple[int, int] | None]] = {"one": (4, 4), "two": (2, 2)}

    def __init__(self, seed: int = 0, dtype: torch.dtype = torch.float64) -> None:
        torch.manual_seed(seed)
        self.one = nn.Conv2d(3, 5, 3, stride=2, padding=1).to(dtype)
        self.two = nn.Conv2d(5, 6, 3, stride=2, padding=1).to(dtype)
        self.head = nn.Linear(6, 3).to(dtype)
        for module in (self.one, self.two, self.head):
            module.requires_grad_(False)

    def features(self, images: Tensor, layer: str) -> Tensor:
        one = self.one(images).flatten(2).transpose(1, 2)
        return one if layer == "one" else self.onward(one, "one", "two", images)

    def onward(self, features: Tensor, frm: str, to: str | None, images: Tensor) -> Tensor:
        if frm == "one":
            grid = features.transpose(1, 2).reshape(len(features), 5, 4, 4)
            features = self.two(grid.relu()).flatten(2).transpose(1, 2)
            if to == "two":
                return features
        return self.head(features.relu().mean(1))

    def bias_shift(self, layer: str) -> Tensor:
        width = 5 if layer == "one" else 6
        return torch.linspace(-0.2, 0.3, width, dtype=self.head.weight.dtype)


def image(seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(3, 8, 8, generator=torch.Generator().manual_seed(seed)).to(dtype)
