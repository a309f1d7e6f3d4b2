"""A stream of Hugging Face (`datasets` with `streaming=True`) as data: labels are read once, images when asked for.

A stream gives one example after another. Here every image has a place: its shard, and its number there. Images are read
in blocks of a few hundred by the stream's own bookmarks (`state_dict`), so the order of a training is a function of
seed and epoch as with any other data, for any number of processes and decoding threads, and after a stop.
"""

import io
import threading
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import fingerprint
from conceptlens.data.checks.findings import Problems
from conceptlens.data.images.objects import as_pixels
from conceptlens.data.labels.columns import columns_of
from conceptlens.data.labels.rename import rename_table
from conceptlens.data.labels.rows import examples_of
from conceptlens.data.sources.encoded import EncodedSource
from conceptlens.recipes.schema import DataConfig

BLOCK = 256  # images that are read together
KEPT = 12  # blocks that stay in memory: more than are shuffled together
CHANGED = (
    "this stream gives other examples than when it was first read. Pass it without shuffle(): images are shuffled here."
)


def is_stream(data: Any) -> bool:
    """Whether this is an `IterableDataset`, or several by the name of their split."""
    parts = list(data.values()) if isinstance(data, Mapping) else [data]
    needed = ("num_shards", "shard", "select_columns", "load_state_dict")
    return bool(parts) and all(hasattr(part, name) for part in parts for name in needed)


class StreamLabels:
    """What a stream says of its images, read in one pass without them.

    Args:
        data: The stream, or streams by split.
        config: Names of columns.
    """

    def __init__(self, data: Any, config: DataConfig) -> None:
        parts = list(data.items()) if isinstance(data, Mapping) else [("", data)]
        self.image, self.shards = (
            config.image_column,
            list[Any](),
        )  # a shard as a stream of its own, made anew each time
        self.counts: list[int] = []
        self.marks: list[list[str]] = []  # of each shard: of the labels of each of its blocks
        self.columns: dict[str, list[Any]] = {}
        total = 0
        for split, stream in parts:
            names = list(stream.column_names or next(iter(stream), {}))
            if self.image not in names:
                raise UserError(
                    f"data: expected a column {self.image!r}, found {', '.join(names)}. Set data.image_column."
                )
            rest = [name for name in names if name != self.image]
            words = {name: getattr((stream.features or {}).get(name), "names", None) for name in rest}
            for number in range(stream.num_shards):
                rows = list(stream.shard(num_shards=stream.num_shards, index=number).select_columns(rest))
                for name in rest:
                    before = self.columns.setdefault(name, [None] * total)
                    before += [_word(row[name], words[name]) for row in rows]
                if split and config.split_column not in rest:
                    self.columns.setdefault(config.split_column, [None] * total).extend([split] * len(rows))
                total += len(rows)
                for values in self.columns.values():
                    values += [None] * (total - len(values))
                self.shards.append((stream, number, rest))
                self.counts.append(len(rows))
                self.marks.append([_mark(rows[start : start + BLOCK], rest) for start in range(0, len(rows), BLOCK)])
        if not total:
            raise UserError("data: expected images, found none.")

    @property
    def class_column(self) -> str | None:
        """`label`, as many data sets on the hub call it, where a recipe's name is not there."""
        return "label" if "label" in self.columns else None

    def concepts(self, config: DataConfig) -> dict[str, list[Any]]:
        """Columns that may be concepts."""
        own = {config.class_column, config.group_column, config.split_column}
        if config.class_column not in self.columns and self.class_column:
            own.add(self.class_column)
        return {name: values for name, values in self.columns.items() if name not in own}


class Streamed(EncodedSource):
    """Images of a stream.

    Args:
        labels: What the stream says of them.
        config: Names of columns, the task.
        concepts: The concept set whose labels are read.
        problems: Gathers what is wrong instead of raising the first error.
    """

    def __init__(
        self, labels: StreamLabels, config: DataConfig, concepts: ConceptSet, problems: Problems | None = None
    ) -> None:
        self.name, self.task, self.window = "memory", config.task, config.window
        columns = dict(labels.columns)
        if config.class_column not in columns and labels.class_column:
            columns[config.class_column] = columns.pop(labels.class_column)
        total = sum(labels.counts)
        table = rename_table(columns_of(columns, total, source="data"), config, concepts)
        ids = tuple(f"{number:06d}" for number in range(total))
        self.classes, self.examples = examples_of(table, ids, config, concepts, problems or Problems())
        self._labels = labels
        self._starts = np.cumsum([0, *labels.counts])
        self.blocks = np.concatenate([np.arange(start, start + count, BLOCK) for start, count in self._spans()])
        self._bookmarks: dict[tuple[int, int], Any] = {}  # shard and block → the state from which it is read
        self._block = lru_cache(KEPT)(self._read_block)
        self._reading = threading.Lock()

    def _spans(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts[:-1].tolist(), self._labels.counts, strict=True)

    def encoded(self, index: int) -> Path | bytes:
        shard = int(np.searchsorted(self._starts, index, side="right")) - 1
        block, row = divmod(index - int(self._starts[shard]), BLOCK)
        with self._reading:  # two threads that miss the same block would read it twice
            return self._block(shard, block)[row]

    def _read_block(self, shard: int, block: int) -> list[Path | bytes]:
        stream, number, names = self._labels.shards[shard]
        own = stream.shard(num_shards=stream.num_shards, index=number)
        if (feature := (stream.features or {}).get(self._labels.image)) is not None and hasattr(feature, "decode"):
            own = own.cast_column(self._labels.image, type(feature)(decode=False))
        start = max((known for of, known in self._bookmarks if of == shard and known <= block), default=0)
        if start:
            own.load_state_dict(self._bookmarks[shard, start])
        rows: list[dict[str, Any]] = []
        for place, row in enumerate(own):
            if start + place // BLOCK == block:
                rows.append(row)
            if (place + 1) % BLOCK == 0:
                self._bookmarks.setdefault((shard, start + (place + 1) // BLOCK), own.state_dict())
            if start + (place + 1) // BLOCK > block:
                break
        if _mark(rows, names) != self._labels.marks[shard][block]:
            raise UserError(f"data: {CHANGED}")
        return [self._content(row[self._labels.image]) for row in rows]

    def _content(self, value: Any) -> Path | bytes:
        """The file of an image as the stream has it; of one that is decoded, without a loss."""
        if isinstance(value, Mapping):
            if value.get("bytes") is not None:
                return bytes(value["bytes"])
            if value.get("path"):
                return Path(str(value["path"]))
            raise UserError("data: expected images, found one with neither bytes nor a path.")
        image = value if isinstance(value, Image.Image) else Image.fromarray(as_pixels(value, name="data"))
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        return buffer.getvalue()


def _word(value: Any, names: list[str] | None) -> Any:
    """A class's number as its name."""
    if names is None:
        return value
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None


def _mark(rows: list[dict[str, Any]], names: list[str]) -> str:
    return fingerprint(*(repr([row[name] for name in names]) for row in rows))
