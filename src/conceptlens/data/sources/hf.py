"""Data sets of Hugging Face, read from their Arrow files: what `Dataset.save_to_disk` wrote, with one split or several.

Only pyarrow is needed, no code of a data set is run, and images stay on disk until they are asked for.
"""

from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.core.files import parse_json, read_json
from conceptlens.core.regular import check_regular
from conceptlens.data.checks.findings import Problems
from conceptlens.data.labels.columns import Columns, arrow_columns
from conceptlens.data.labels.rename import rename_table
from conceptlens.data.labels.rows import examples_of
from conceptlens.data.labels.words import fold
from conceptlens.data.sources.encoded import EncodedSource
from conceptlens.recipes.schema import DataConfig

SPLITS, STATE, INFO = "dataset_dict.json", "state.json", "dataset_info.json"
CHUNK = 8192


def is_saved(folder: Path) -> bool:
    """Whether `save_to_disk` wrote this folder."""
    return (folder / SPLITS).is_file() or ((folder / STATE).is_file() and (folder / INFO).is_file())


def need_pyarrow(place: str) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise UserError(
            f"{place}: reading Hugging Face data needs pyarrow. Install it: pip install 'conceptlens[hf]'"
        ) from None


class HuggingFace(EncodedSource):
    """Images and labels of a data set that `save_to_disk` wrote.

    Numbers of a ClassLabel are read as their names. Several splits become the split column; a single one is divided as
    the recipe says.

    Args:
        path: The folder.
        config: Names of the columns, the task.
        concepts: The concept set whose labels are read.
        problems: Gathers what is wrong instead of raising the first error.
        name: What to call the data; the folder's name if not given.
    """

    def __init__(
        self,
        path: Path,
        config: DataConfig,
        concepts: ConceptSet,
        problems: Problems | None = None,
        *,
        name: str | None = None,
    ) -> None:
        need_pyarrow(str(path))
        problems = problems or Problems()
        self.name, self.task, self.window = name or path.resolve().name, config.task, config.window
        parts = _parts(path)
        self._image = _image_column(_features(parts[0][1]), config.image_column, path)
        tables = [(split, folder, _read(folder)) for split, folder in parts]
        self._tables = [(folder, table.column(self._image)) for _, folder, table in tables]
        self._starts = np.cumsum([0, *(len(table) for _, _, table in tables)])
        columns = rename_table(self._columns(tables, path, config), config, concepts)
        if not len(columns):
            raise UserError(f"{path}: expected images, found none.")
        several = len(parts) > 1
        ids = tuple(
            f"{split}/{row:06d}" if several else f"{row:06d}" for split, _, table in tables for row in range(len(table))
        )
        self.classes, self.examples = examples_of(columns, ids, config, concepts, problems)

    def _columns(self, tables: list[tuple[str, Path, Any]], path: Path, config: DataConfig) -> Columns:
        """Everything but the images, all splits below each other."""
        import pyarrow as pa

        whole = []
        for split, folder, table in tables:
            plain = table.drop_columns([self._image])
            for column, names in _class_names(_features(folder)).items():
                if column in plain.column_names:
                    words = [_named(value, names) for value in plain.column(column).to_pylist()]
                    plain = plain.set_column(plain.column_names.index(column), column, pa.array(words))
            if len(tables) > 1 and config.split_column not in plain.column_names:
                plain = plain.append_column(config.split_column, pa.array([split] * len(plain), pa.string()))
            whole.append(plain)
        schema = whole[0].schema
        if any(table.schema.names != schema.names for table in whole):
            raise UserError(f"{path}: expected the same columns in all of its splits.")
        return arrow_columns(
            schema,
            lambda names: (batch for table in whole for batch in table.select(names).to_batches(CHUNK)),
            str(path),
        )

    def encoded(self, index: int) -> Path | bytes:
        part = int(np.searchsorted(self._starts, index, side="right")) - 1
        folder, images = self._tables[part]
        found = images[index - int(self._starts[part])].as_py() or {}
        if found.get("bytes") is not None:
            return bytes(found["bytes"])
        if found.get("path"):
            return folder / str(found["path"])
        raise UserError(f"{self.name}: {self.examples.ids[index]}: expected an image, found neither bytes nor a path.")


def _parts(path: Path) -> list[tuple[str, Path]]:
    """Splits with their folders; one without a name where there are none."""
    if not (path / SPLITS).is_file():
        return [("", path)]
    splits = _described(path / SPLITS).get("splits")
    if not isinstance(splits, list) or not splits:
        raise UserError(f"{path / SPLITS}: expected the names of its splits, found {splits!r}.")
    return [(str(split), path / str(split)) for split in splits]


def _described(file: Path) -> dict[str, Any]:
    found = read_json(file)
    if not isinstance(found, dict):
        raise UserError(f"{file}: expected what `save_to_disk` writes, found a {type(found).__name__}.")
    return found


def _features(folder: Path) -> dict[str, Any]:
    features = _described(folder / INFO).get("features")
    if not isinstance(features, dict) or not all(isinstance(each, dict | list) for each in features.values()):
        raise UserError(f"{folder / INFO}: expected the data set's features, found {type(features).__name__}.")
    return features


def _read(folder: Path) -> Any:
    """The rows of one split, mapped from disk."""
    import pyarrow as pa

    try:
        files = [folder / str(entry["filename"]) for entry in _described(folder / STATE).get("_data_files", [])]
        for file in files:
            check_regular(file)
        tables = [pa.ipc.open_stream(pa.memory_map(str(file))).read_all() for file in files]
        table = pa.concat_tables(tables)
        table.validate(full=True)  # a damaged offset must not lead anywhere else
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{folder}: expected Arrow files as `save_to_disk` writes them, but {reason}.") from None
    return table


def _image_column(features: dict[str, Any], wanted: str, path: Path) -> str:
    """The column with the images: the one the recipe names, or the only one."""
    images = [name for name, kind in features.items() if isinstance(kind, dict) and kind.get("_type") == "Image"]
    named = [name for name in images if fold(name) == fold(wanted)]
    if named:
        return named[0]
    if len(images) == 1:
        return images[0]
    found = did_you_mean(wanted, images) if images else "It has no column of images."
    raise UserError(f"{path}: there is no column of images called {wanted!r}. {found} Set data.image_column.")


def hub_features(schema: Any) -> dict[str, Any] | None:
    """What a hub's Parquet says of its columns; None where it says nothing that can be read."""
    try:
        features = parse_json((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return features if isinstance(features, dict) else None


def _class_names(features: dict[str, Any]) -> dict[str, list[str]]:
    """Column → names of its classes, for a ClassLabel or a list of them."""
    found = {}
    for name, kind in features.items():
        inner = kind[0] if isinstance(kind, list) and kind else kind
        inner = inner.get("feature", inner) if isinstance(inner, dict) else inner
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" and isinstance(inner.get("names"), list):
            found[name] = [str(each) for each in inner["names"]]
    return found


def _named(value: Any, names: list[str]) -> Any:
    """A class number, or a list of them, as names; -1 is unlabeled."""
    if isinstance(value, list):
        return [_named(each, names) for each in value]
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else None
