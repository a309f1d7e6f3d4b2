"""A user's own file: a tiny network with a batch norm, and some that cannot be used."""

import torch
from torch import Tensor, nn


class Tiny(nn.Module):
    image_size = 24
    classes = ("red", "green", "blue")

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.one = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
        self.two = nn.Sequential(nn.Conv2d(8, 10, 3, 2, 1), nn.BatchNorm2d(10), nn.ReLU())
        self.head = nn.Linear(10, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.two(self.one(x)).mean((2, 3)))
        return found


class Rounds(Tiny):
    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.two(self.one(x).round().detach()).mean((2, 3)))
        return found


class Constant(Tiny):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(0 * x)


def build() -> Tiny:
    return Tiny()


def rounds() -> Rounds:
    return Rounds()


def constant() -> Constant:
    return Constant()


def fails() -> Tiny:
    raise ValueError("no weights here")


def number() -> int:
    return 3
