"""Shards with images and labels: WebDataset tar files, or Parquet with the images' bytes.

An image is read when it is asked for, by its place in its shard, so the order of a training, its resumption and the
number of its processes are those of any other data.
"""

import tarfile
import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import parse_json
from conceptlens.data.checks.findings import Problems
from conceptlens.data.dataset import UNLABELED, Examples, no_concepts
from conceptlens.data.images.read import SUFFIXES
from conceptlens.data.images.window import Window
from conceptlens.data.labels.columns import arrow_columns, columns_of
from conceptlens.data.labels.rename import rename_table
from conceptlens.data.labels.rows import examples_of
from conceptlens.data.sources.encoded import EncodedSource
from conceptlens.data.sources.hf import _class_names, _named, hub_features, need_pyarrow
from conceptlens.data.sources.shard_files import LARGEST, expand, is_remote, open_shard, read_part
from conceptlens.data.sources.shard_index import ShardIndex, join, read_indexes
from conceptlens.recipes.schema import DataConfig

GROUPS = 12  # row groups of Parquet that stay in memory: more than are shuffled together
LABELS = (".cls", ".txt")  # members of a tar file that hold the class alone
LARGEST_LABELS = 10_000_000  # bytes of such a member, or of one of JSON
MOST_ROWS = 100_000_000  # images of one Parquet file


class Shards(EncodedSource):
    """Images and labels from shards.

    Args:
        config: `source` is a pattern, as `train-{000..120}.tar`, `data/*.parquet` or `https://…/{00..20}.tar`.
        concepts: The concept set whose labels are read; None reads no labels.
        problems: Gathers what is wrong instead of raising the first error.
    """

    def __init__(self, config: DataConfig, concepts: ConceptSet | None, problems: Problems | None = None) -> None:
        source = config.source
        self.name = PurePosixPath(source.split("://")[-1]).stem.split("{")[0].rstrip("-_*.") or "shards"
        self.task, self.window = config.task, config.window
        self._names = expand(source)
        about = f"{config.image_column} {config.class_column}"
        self._is_tar = [name.endswith(".tar") for name in self._names]
        if not all(self._is_tar) and any(self._is_tar):
            raise UserError(f"{source}: expected either .tar or .parquet files, found both.")
        if not all(self._is_tar):
            need_pyarrow(source)
        indexes = read_indexes(self._names, lambda name: _index(name, config), about)
        self._starts = np.cumsum([0, *(len(index.keys) for index in indexes)])
        self._places = np.concatenate([index.places for index in indexes])
        several = len(self._names) > 1
        ids = tuple(
            f"{PurePosixPath(name).stem}/{key}" if several else key
            for name, index in zip(self._names, indexes, strict=True)
            for key in index.keys
        )
        if concepts is None:
            unlabeled = np.full(len(ids), UNLABELED, np.int64)
            self.classes, self.examples = (), Examples(ids, unlabeled, no_concepts(len(ids), 0))
        else:
            table = rename_table(join(indexes, source), config, concepts)
            self.classes, self.examples = examples_of(table, ids, config, concepts, problems or Problems())
        self.blocks = self._blocks()
        self._image = config.image_column
        self._group = lru_cache(GROUPS)(self._read_group)
        self._reading = threading.Lock()

    def _blocks(self) -> "np.typing.NDArray[np.int64] | None":
        """Where row groups begin, or shards that are far away; a local tar file gives any image at once."""
        if not all(self._is_tar):
            shard = np.repeat(np.arange(len(self._names)), np.diff(self._starts))
            changes = np.diff(shard) | np.diff(self._places[:, 0])
            return np.concatenate([[0], np.flatnonzero(changes) + 1]).astype(np.int64)
        return self._starts[:-1].astype(np.int64) if any(map(is_remote, self._names)) else None

    def encoded(self, index: int) -> bytes:
        shard = int(np.searchsorted(self._starts, index, side="right")) - 1
        place, inner = self._places[index].tolist()
        if self._is_tar[shard]:
            return read_part(self._names[shard], place, inner)
        with self._reading:  # two threads that miss the same group would read it twice
            value = self._group(shard, place)[inner].as_py()
        data = value.get("bytes") if isinstance(value, dict) else value
        if not isinstance(data, bytes):
            raise UserError(f"{self.name}: {self.examples.ids[index]}: expected the bytes of an image, found none.")
        return data

    def _read_group(self, shard: int, group: int) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with open_shard(self._names[shard]) as file, pq.ParquetFile(file) as table:
                held = table.metadata.row_group(group)
                parts = [held.column(number) for number in range(held.num_columns)]
                size = sum(
                    part.total_uncompressed_size for part in parts if part.path_in_schema.split(".")[0] == self._image
                )
                if size > LARGEST:
                    raise UserError(f"{self._names[shard]}: row group {group} would unpack to {size:,} bytes.")
                return table.read_row_group(group, columns=[self._image]).column(self._image).combine_chunks()
        except (pa.ArrowException, OSError, KeyError) as error:
            raise UserError(f"{self._names[shard]}: row group {group} is damaged ({_first_line(error)}).") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def open_unlabeled(source: str, window: Window) -> Shards:
    """The images of shards alone."""
    return Shards(DataConfig(source, window=window), None)


def _index(name: str, config: DataConfig) -> ShardIndex:
    try:
        return _index_tar(name, config) if name.endswith(".tar") else _index_parquet(name, config)
    except UserError:
        raise
    except (tarfile.TarError, OSError, EOFError, ValueError, OverflowError, RecursionError) as error:  # damaged
        raise UserError(f"{name}: cannot be read: {error or type(error).__name__}.") from None


def _index_tar(name: str, config: DataConfig) -> ShardIndex:
    """Members whose names agree up to the first dot are one image and what is known of it."""
    places: list[tuple[int, int]] = []
    keys: dict[str, None] = {}
    rows: list[dict[str, Any]] = []
    for key, members in _samples(name):
        image = next((member for suffix, member in members.items() if suffix.lower().endswith(SUFFIXES)), None)
        if image is None:
            continue
        if key in keys:
            raise UserError(f"{name}: two images are called {key!r}.")
        row: dict[str, Any] = {}
        for suffix, member in members.items():
            if isinstance(member, bytes):
                row |= _labels(name, key, suffix, member, config)
        keys[key] = None
        places.append(image)  # type: ignore[arg-type]
        rows.append(row)
    names = list(dict.fromkeys(column for row in rows for column in row))
    table = columns_of({column: [row.get(column) for row in rows] for column in names}, len(rows), source=name)
    return ShardIndex(tuple(keys), np.array(places, np.int64).reshape(-1, 2), table)


def _samples(name: str) -> Iterator[tuple[str, dict[str, bytes | tuple[int, int]]]]:
    """Key and members by suffix: of an image its place, of anything else its content."""
    current = ""
    members: dict[str, bytes | tuple[int, int]] = {}
    with open_shard(name) as file, tarfile.open(fileobj=file, mode="r:") as tar:
        for member in tar:
            if not member.isfile():
                continue
            folder, _, base = member.name.rpartition("/")
            stem, dot, suffix = base.partition(".")
            key = f"{folder}/{stem}" if folder else stem
            if key != current and members:
                yield current, members
                members = {}
            current = key
            content: bytes | tuple[int, int] = (member.offset_data, member.size)
            if f".{suffix}".lower() in (*LABELS, ".json"):
                if member.size > LARGEST_LABELS:
                    raise UserError(f"{name}: {member.name}: labels of {member.size:,} bytes; expected a few.")
                extracted = tar.extractfile(member)
                content = b"" if extracted is None else extracted.read()
            members[f"{dot}{suffix}"] = content
            tar.members = []  # type: ignore[attr-defined]  # it would remember every one
    if members:
        yield current, members


def _labels(name: str, key: str, suffix: str, content: bytes, config: DataConfig) -> dict[str, Any]:
    if suffix.lower() in LABELS:
        return {config.class_column: content.decode("utf-8", "replace").strip()}
    try:
        row = parse_json(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name}: {key}{suffix}: expected JSON, but {error}.") from None
    if not isinstance(row, dict):
        raise UserError(f"{name}: {key}{suffix}: expected labels by name, found {type(row).__name__}.")
    return row


def _index_parquet(name: str, config: DataConfig) -> ShardIndex:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open_shard(name) as file, pq.ParquetFile(file) as table:
            schema = table.schema_arrow
            if config.image_column not in schema.names:
                found = ", ".join(schema.names)
                raise UserError(
                    f"{name}: expected the images' bytes in the column {config.image_column!r}, found {found}. "
                    "Set data.image_column."
                )
            groups = [table.metadata.row_group(group).num_rows for group in range(table.num_row_groups)]
            if not 0 <= sum(groups) <= MOST_ROWS:
                raise UserError(f"{name}: {sum(groups):,} rows; a shard may have {MOST_ROWS:,}.")
            words = _class_names(hub_features(schema) or {})
            fields = [field for field in schema if field.name != config.image_column]

            def batches(names: list[str]) -> Iterator[Any]:
                for batch in table.iter_batches(columns=names):
                    for column in set(names) & set(words):
                        values = [_named(value, words[column]) for value in batch.column(column).to_pylist()]
                        batch = batch.set_column(names.index(column), column, pa.array(values))
                    yield batch

            columns = arrow_columns(pa.schema(fields), batches, name)
    except pa.ArrowException as error:
        raise UserError(f"{name}: not Parquet that can be read: {_first_line(error)}") from None
    if columns.columns and len(columns) != sum(groups):
        raise UserError(f"{name}: {sum(groups):,} rows are announced, {len(columns):,} are there; it is damaged.")
    places = [(group, row) for group, rows in enumerate(groups) for row in range(rows)]
    keys = tuple(f"{number:06d}" for number in range(len(places)))
    return ShardIndex(keys, np.array(places, np.int64).reshape(-1, 2), columns)
