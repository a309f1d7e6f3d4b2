"""What a shard holds, image by image: read once, then from the cache."""

import contextlib
import io
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from conceptlens.core.errors import DAMAGED_ARRAY, UserError
from conceptlens.core.files import fingerprint, write_bytes
from conceptlens.data.labels.columns import Column, Columns
from conceptlens.data.sources.shard_files import stamp

VERSION = "1"


@dataclass(frozen=True)
class ShardIndex:
    """N images of a shard."""

    keys: tuple[str, ...]  # names, unique in the shard
    places: npt.NDArray[np.int64]  # (N, 2): where the image is, in words of its format
    table: Columns  # everything else that is known of them

    def to_bytes(self) -> bytes:
        buffer = io.BytesIO()
        words = {"keys": self.keys, "columns": [(column.name, column.values) for column in self.table.columns]}
        codes = {f"codes{number}": column.codes for number, column in enumerate(self.table.columns)}
        text = np.frombuffer(json.dumps(words).encode(), np.uint8)
        np.savez_compressed(buffer, places=self.places, words=text, **codes)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes, source: str) -> "ShardIndex":
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            words = json.loads(file["words"].tobytes())
            columns = tuple(
                Column(name, file[f"codes{number}"], tuple(values))
                for number, (name, values) in enumerate(words["columns"])
            )
            places = file["places"]
        rows = np.arange(2, len(places) + 2, dtype=np.int64)
        return cls(tuple(words["keys"]), places, Columns(source, columns, rows))


def read_indexes(names: Sequence[str], read: Callable[[str], ShardIndex], about: str) -> list[ShardIndex]:
    """The index of each shard.

    Args:
        names: Of the shards.
        read: Makes an index by reading a shard.
        about: What else it depends on.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "conceptlens" / "shards"
    indexes = []
    # Quiet for half a second, and where nobody looks.
    for name in tqdm(names, "reading shards", unit=" shards", disable=None, leave=False, delay=0.5):
        where = name if "://" in name else os.path.abspath(name)
        file = cache / f"{fingerprint(VERSION, where, stamp(name), about)}.npz"
        try:
            index = ShardIndex.from_bytes(file.read_bytes(), name)
        except (*DAMAGED_ARRAY, BadZipFile):  # not there, or damaged
            index = read(name)
            with contextlib.suppress(OSError):  # nowhere to keep it: the next start reads the shard again
                write_bytes(file, index.to_bytes())
        indexes.append(index)
    return indexes


def join(indexes: Sequence[ShardIndex], source: str) -> Columns:
    """The tables of all shards below each other; a column that some do not have is blank there."""
    names = list(dict.fromkeys(column.name for index in indexes for column in index.table.columns))
    columns = []
    for name in names:
        values: dict[str, int] = {}
        codes: list[npt.NDArray[Any]] = []
        for index in indexes:
            column = next((column for column in index.table.columns if column.name == name), None)
            own = ("",) if column is None else column.values
            number = np.array([values.setdefault(value, len(values)) for value in own], np.int32)
            codes.append(number[np.zeros(len(index.keys), np.int32) if column is None else column.codes])
        columns.append(Column(name, np.concatenate(codes), tuple(values)))
    count = sum(len(index.keys) for index in indexes)
    if not count:
        raise UserError(f"{source}: expected images, found none.")
    return Columns(source, tuple(columns), np.arange(2, count + 2, dtype=np.int64))
