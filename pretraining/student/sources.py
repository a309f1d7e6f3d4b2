"""From packed shards to the sources that the student draws its views from."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from pretraining.imagenet import WNIDS
from pretraining.images.shards import PackedImages, read_source
from pretraining.student.pool import LABELS, STYLES, Source
from pretraining.student.wordings import cell_axes


def load_sources(folder: Path, names: Sequence[str], workers: int) -> dict[str, Source]:
    """The sources asked for, from `folder/NAME-0`, `folder/NAME-1`, …"""
    sources = {}
    for name in names:
        shards = sorted(folder.glob(f"{name}-*"))
        if not shards:
            raise UserError(
                f"{folder}: expected shards {name}-0, {name}-1, …, found none. Run pretraining.images.pack."
            )
        packed = read_source(shards, workers)
        sources[name] = Source(packed.pixels, _classes(packed), _attributes(packed), STYLES[name], LABELS[name])
    return sources


def _classes(packed: PackedImages) -> Tensor:
    position = {wnid: index for index, wnid in enumerate(WNIDS)}
    return torch.tensor([position.get(label, -1) for label in packed.labels])


def _attributes(packed: PackedImages) -> Tensor:
    """(N, 12): class and attributes of blood cells as positions in the concept library; −1 for other images."""
    columns, values, _ = cell_axes()
    rows = torch.full((len(packed), len(columns)), -1)
    if packed.axes is None or packed.attributes is None:
        return rows
    classes = {name.casefold(): index for index, name in enumerate(values[0])}
    rows[:, 0] = torch.tensor([classes[label.casefold()] for label in packed.labels])
    for column, (axis, own) in enumerate(packed.axes.items()):
        place = columns.index(axis)
        order = torch.tensor([values[place].index(value) for value in own])
        rows[:, place] = order[packed.attributes[:, column]]
    return rows
