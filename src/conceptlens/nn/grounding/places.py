"""Where things are in the training images: what a method may look at before it trains, and what it then learns from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from conceptlens.encoders.contract import Tokens


@dataclass(frozen=True)
class PlaceTargets:
    """Targets by place of N images; what a method does not learn from is None."""

    foreground: Tensor | None = None  # (N, L) in [0, 1]: how far each patch belongs to the object
    foreground_known: Tensor | None = None  # (N,), bool
    points: Tensor | None = None  # (N, P, 2): row and column of each part in patches; anything where it is not seen
    seen: Tensor | None = None  # (N, P), bool

    def _each(self, change: Callable[[Tensor], Tensor]) -> "PlaceTargets":
        given = (self.foreground, self.foreground_known, self.points, self.seen)
        return PlaceTargets(*(None if value is None else change(value) for value in given))

    def __getitem__(self, rows: slice | Tensor) -> "PlaceTargets":
        return self._each(lambda value: value[rows])

    def to(self, device: torch.device) -> "PlaceTargets":
        return self._each(lambda value: value.to(device, non_blocking=True))


@dataclass(frozen=True)
class MarkedPlaces:
    """What people marked in N images, on the model's grid."""

    parts: tuple[str, ...]  # (R,) names that the data knows
    points: Tensor  # (N, R, 2): row and column of a part's point or middle, in patches
    seen: Tensor  # (N, R), bool


@dataclass(frozen=True)
class TrainingImages:
    """All N training images, in their order, as a method may see them once before training.

    Attributes:
        count: N.
        grid: Patches (h, w).
        known_parts: Names of the parts that the data knows; empty where nothing is marked.
        marked: Where people marked these parts. Takes the parts and rows that are wanted.
        boxes: How far the object's box covers each patch (N, L), and of which images that is known, (N,).
        tokens: What the encoder says of them, batch by batch, on the training's device.
        seed: Of random choices.
        note: Tells the user something.
    """

    count: int
    grid: tuple[int, int]
    known_parts: tuple[str, ...]
    marked: Callable[[tuple[str, ...], Tensor], MarkedPlaces]
    boxes: Callable[[], tuple[Tensor, Tensor]]
    tokens: Callable[[], Iterator[Tokens]]
    seed: int
    note: Callable[[str], object]
