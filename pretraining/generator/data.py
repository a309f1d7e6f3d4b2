"""Images with classes and attributes, whole in memory as bytes; and which of them are drawn how often.

A *skew* makes one value of an attribute so many times as frequent as each other one, by drawing: a bias whose size is
known. Within a value, images stay as frequent as they were among themselves.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.data.images.read import open_image, resize_square
from conceptlens.data.sources.open import open_source
from conceptlens.recipes import DataConfig
from pretraining.images.collect import list_blood


@dataclass(frozen=True)
class Labeled:
    """N images."""

    images: Tensor  # (N, 3, H, W) bytes
    conditions: Tensor  # (N, 1 + A): class and value indices, −1 for unknown
    classes: tuple[str, ...]
    attributes: Mapping[str, tuple[str, ...]]

    def __len__(self) -> int:
        return len(self.images)


def from_source(source: str, size: int, *, concepts: str | None = None, split: str = "train") -> Labeled:
    """Images of anything that `conceptlens` reads, of one of its splits (all of them where it has none)."""
    data, vocabulary = open_source(DataConfig(source), ConceptSet.load(concepts) if concepts else None)
    given = data.examples.split
    rows = [index for index in range(len(data)) if given is None or given[index] == split]
    if not rows:
        raise UserError(f"{source}: no images of the split {split!r}.")
    if data.task != "single":
        raise UserError(f"{source}: the generator is conditioned on one class an image; this data has several.")
    groups = [group for group in vocabulary.groups if group.kind == "exclusive"]
    columns = [torch.from_numpy(data.examples.labels[rows])]
    for group in groups:
        labels = torch.from_numpy(data.examples.concepts[rows][:, group.concepts].astype(np.int64))
        columns.append(torch.where(labels.max(1).values == 1, labels.argmax(1), -1))
    images = np.stack([resize_square(data.read_at_least(index, size), size) for index in rows])
    names = {group.name: group.values for group in groups}
    return Labeled(torch.from_numpy(images), torch.stack(columns, 1), data.classes, names)


def from_blood(folder: Path, size: int) -> Labeled:
    """The training table of WBCAtt with PBC's images."""
    listing = list_blood(folder)
    classes = ConceptSet.load("blood-cells").classes
    images = np.stack([resize_square(open_image(each.path, name=each.name), size) for each in listing.images])
    rows = [(classes.index(each.label), *each.attributes) for each in listing.images]
    return Labeled(torch.from_numpy(images), torch.tensor(rows), classes, listing.axes)


def parse_skew(text: str, attributes: Mapping[str, tuple[str, ...]]) -> tuple[int, int, float]:
    """`cell size=big:8` → the attribute's column, the value's index, and 8."""
    name, equals, rest = text.partition("=")
    value, colon, ratio = rest.rpartition(":")
    name, value = name.strip(), value.strip()
    try:
        times = float(ratio)
    except ValueError:
        times = 0.0
    if not equals or not colon or times <= 0:
        raise UserError(f"--skew {text!r}: expected `group=value:ratio`, as `cell size=big:8`.")
    if name not in attributes:
        raise unknown_name("attribute", name, attributes)
    if value not in attributes[name]:
        raise unknown_name(f"value of {name!r}", value, attributes[name])
    return 1 + list(attributes).index(name), attributes[name].index(value), times


def draw_weights(data: Labeled, skew: str | None) -> Tensor:
    """How often each image is drawn, (N,), summing to one. Images without a value of the attribute are not drawn."""
    if skew is None:
        return torch.full((len(data),), 1 / len(data), dtype=torch.float64)
    column, value, times = parse_skew(skew, data.attributes)
    given = data.conditions[:, column]
    counts = torch.bincount(given[given >= 0], minlength=len(list(data.attributes.values())[column - 1])).double()
    if not counts[value]:
        raise UserError(f"--skew {skew!r}: no image has this value.")
    share = torch.where(counts > 0, 1.0, 0.0).double()
    share[value] = times
    share /= share.sum()
    weights = (share / counts.clamp(min=1))[given.clamp(min=0)]
    return torch.where(given >= 0, weights, 0.0)


def turned(images: Tensor, turn: Tensor) -> Tensor:
    """Each image (B, 3, H, H) in one of the eight positions of a square, turn (B,) from 0 to 7."""
    result = torch.empty_like(images)
    for kind in range(8):
        mine = turn == kind
        some = torch.rot90(images[mine], kind % 4, (2, 3))
        result[mine] = some.flip(3) if kind >= 4 else some
    return result
