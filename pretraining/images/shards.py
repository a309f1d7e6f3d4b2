"""Shards: folders of WebP sheets with an index.json, small enough to travel one by one.

An index holds `source`, `side`, `columns`, `quality`, the shard's `shard` number and `number` of images, one SHA-256
per sheet (000.webp, 001.webp, …), and for each image its name, its class (a position in `classes`) and, for blood
cells, the position of its value on each of `axes`. Images come in an order that has nothing to do with their class, so
that any shard is a fair sample.

Reading needs little more than Pillow and torch: a machine that only trains may have no more.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from pretraining.images.sheets import Pixels, cut, decode

INDEX = "index.json"


@dataclass(frozen=True)
class PackedImages:
    """All images of a source, decoded."""

    pixels: Tensor  # (N, 3, side, side) uint8
    labels: list[str]  # (N,) wnid, or the class of a blood cell
    names: list[str]  # (N,) file, relative to the folder of its source
    attributes: Tensor | None = None  # (N, axes) int64: position of the value on each axis
    axes: dict[str, tuple[str, ...]] | None = None  # attribute → its values

    def __len__(self) -> int:
        return len(self.names)


def sheet_name(position: int) -> str:
    return f"{position:03d}.webp"


def read_source(folders: Sequence[Path], workers: int = 1) -> PackedImages:
    """Decode the shards of one source, each sheet checked against its SHA-256.

    Args:
        folders: Shards of the same source and packing, in any order; they need not be all of them.
        workers: Threads.
    """
    indices = sorted(
        ((read_json(Path(folder) / INDEX), Path(folder)) for folder in folders), key=lambda i: i[0]["shard"]
    )
    if not indices:
        raise UserError("Expected at least one shard to read, got none.")
    first = indices[0][0]
    if len({(index["source"], index["plan"]) for index, _ in indices}) > 1:
        raise UserError("These shards are of different sources or packings: " + ", ".join(str(f) for _, f in indices))
    if len({index["shard"] for index, _ in indices}) < len(indices):
        raise UserError("A shard is given twice: " + ", ".join(str(folder) for _, folder in indices))
    side, total = first["side"], sum(index["number"] for index, _ in indices)
    pixels = torch.empty((total, 3, side, side), dtype=torch.uint8)

    def fill(sheet: tuple[Path, str, int, int]) -> int:
        path, digest, start, count = sheet
        pixels[start : start + count] = torch.from_numpy(cut(_checked(path, digest), side, count))
        return count

    with (
        ThreadPoolExecutor(workers, "shards") as pool,
        tqdm(total=total, desc=f"reading {first['source']}", unit="image", disable=None) as progress,
    ):
        for count in pool.map(fill, list(_sheets(indices))):
            progress.update(count)
    labels = [index["classes"][label] for index, _ in indices for label in index["labels"]]
    names = [name for index, _ in indices for name in index["names"]]
    if not first["axes"]:
        return PackedImages(pixels, labels, names)
    rows = [[int(value) for value in row.split()] for index, _ in indices for row in index["attributes"]]
    axes = {axis: tuple(values) for axis, values in first["axes"].items()}
    return PackedImages(pixels, labels, names, torch.tensor(rows, dtype=torch.int64), axes)


def _sheets(indices: Sequence[tuple[dict[str, Any], Path]]) -> Iterator[tuple[Path, str, int, int]]:
    """Each sheet's file, hash, position of its first image, and number of images."""
    start = 0
    for index, folder in indices:
        left = index["number"]
        for position, digest in enumerate(index["sheets"]):
            count = min(left, index["columns"] ** 2)
            yield folder / sheet_name(position), digest, start, count
            start, left = start + count, left - count


def _checked(path: Path, digest: str) -> Pixels:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UserError(
            f"{path}: this sheet of the shard is missing. Copy the shard again, or pack it again."
        ) from None
    if sha256(data).hexdigest() != digest:
        raise UserError(f"{path}: not the sheet that was packed (SHA-256 differs). Copy the shard again.")
    return decode(data)
