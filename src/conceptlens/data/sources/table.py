"""Images named in a table: CSV, Excel or Parquet, one row an image.

Columns are found by the names in the recipe and in the concept file; capitals, spaces, hyphens and underscores do not
matter. A blank cell, `na`, `nan`, `?` or `unknown` means that nobody knows, unless the concept file declares that word
as a value. Columns that nothing else claims are kept as metadata.
"""

import os
import re
from pathlib import Path

import numpy as np

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.checks.findings import Problems, counted
from conceptlens.data.images.read import SUFFIXES
from conceptlens.data.labels.columns import Column, Columns, read_columns
from conceptlens.data.labels.rename import rename_table
from conceptlens.data.labels.rows import examples_of, find_column
from conceptlens.data.sources.encoded import EncodedSource
from conceptlens.recipes.schema import DataConfig

LOOKED_FOR = 100_000  # rows up to which every image is looked for at the start
SPREAD = 1_000  # images that are looked for in a longer table
_FRAME = re.compile(r"#(\d+)$")  # `scan.dcm#3` is the third frame of scan.dcm


class Table(EncodedSource):
    """Images and labels from a table.

    Args:
        path: The CSV, Excel or Parquet file.
        config: Names of the columns, the folder of the images, the task.
        concepts: The concept set whose labels are read.
        problems: Gathers what is wrong instead of raising the first error; bad rows are left out, bad cells unknown.
    """

    def __init__(self, path: Path, config: DataConfig, concepts: ConceptSet, problems: Problems | None = None) -> None:
        problems = problems or Problems()
        # `images.csv`, as `init` calls it, says less than its folder.
        own = path.resolve().parent.name.removesuffix("-setup") if path.stem == "images" else ""
        self.name = own or path.stem
        self.task = config.task
        self.window = config.window
        self._base = image_folder(path, config)
        if not self._base.is_dir():
            raise UserError(
                f"data.images: expected the folder that image paths start from, found none at {self._base}."
            )
        gathered = Problems(strict=False)  # all bad rows are told at once
        table = rename_table(read_columns(path, gathered, expect=config.image_column), config, concepts)
        if not len(table):
            raise UserError(f"{path}: expected rows below the header, found none.")
        image = find_column(table, config, "image_column", required=True)
        assert image is not None
        # `data check` looks for every file. On a network drive that takes longer than an epoch of a large table.
        every = not problems.strict or len(table) <= LOOKED_FOR
        table, ids, self._files = _locate(table, image, self._base, gathered, every=every)
        if not ids:
            problems.take(gathered)
            raise UserError(f"{path}: none of the images it names is left to read.")
        self.classes, self.examples = examples_of(table, ids, config, concepts, gathered)
        problems.take(gathered)

    def encoded(self, index: int) -> Path:
        name = self._files[index]
        whole = self._base / name
        return self._base / _FRAME.sub("", name) if _FRAME.search(name) and not whole.is_file() else whole

    def frame(self, index: int) -> int:
        found = _FRAME.search(self._files[index])
        return int(found[1]) - 1 if found and not (self._base / self._files[index]).is_file() else 0


def _locate(
    table: Columns, image: Column, base: Path, problems: Problems, *, every: bool
) -> tuple[Columns, tuple[str, ...], tuple[str, ...]]:
    """The rows whose image is there and named for the first time, their ids, and their files relative to `base`.

    Unless `every` file is looked for, some that are spread over the table are; a name with a suffix is believed.
    """
    stride = 1 if every else len(table) // SPREAD
    root = str(base)
    files: dict[str, str | None] = {}
    ids: list[str] = []
    keep = np.zeros(len(table), dtype=bool)
    blank: list[int] = []
    missing: list[str] = []
    repeated: list[str] = []
    for position, text in enumerate(image.texts()):
        if not text:
            blank.append(position)
            continue
        name = tidy_name(text, base)
        if name in files:
            repeated.append(name)
            continue
        believed = position % stride != 0 and name.lower().endswith(SUFFIXES)
        file = files[name] = name if believed else _existing(root, name)
        if file is None:
            missing.append(name)
        else:
            ids.append(name)
            keep[position] = True
    source = table.source
    if missing:
        total = len(ids) + len(missing)
        problems.add(
            "error",
            "missing-files",
            f"{source}: {len(missing):,} of {counted(total, 'image')} are not there. "
            f"Paths start from {base.resolve()}; set data.images if the images lie elsewhere.",
            count=len(missing),
            examples=missing,
        )
    if repeated:
        problems.add(
            "error",
            "repeated-images",
            f"{source}: {counted(len(repeated), 'row')} name an image that an earlier row has; keep one row an image.",
            count=len(repeated),
            examples=repeated,
        )
    if blank:
        problems.add(
            "error",
            "no-image",
            f"{source}: {counted(len(blank), 'row')} without an image in the column {image.name!r}.",
            count=len(blank),
            examples=[f"row {table.rows[position]}" for position in blank],
        )
    return table.keep(keep), tuple(ids), tuple(files[name] or name for name in ids)


def image_folder(path: Path, config: DataConfig) -> Path:
    """The folder from which a table's image paths start."""
    return Path(config.images).expanduser() if config.images else path.parent


def tidy_name(text: str, base: Path) -> str:
    """One spelling of a path: forward slashes, no detours, relative where it lies in the images' folder."""
    path = os.path.normpath(text.replace("\\", "/"))
    if os.path.isabs(path) and Path(path).is_relative_to(base.absolute()):
        return str(Path(path).relative_to(base.absolute()))
    return path


def _existing(root: str, name: str) -> str | None:
    """The file that a name stands for, with or without its suffix."""
    path = os.path.join(root, name)
    try:
        if os.path.isfile(path):
            return name
    except ValueError:  # a zero byte in a name
        return None
    frame = _FRAME.search(name)
    if frame and int(frame[1]) > 0 and os.path.isfile(_FRAME.sub("", path)):
        return name
    if not name.lower().endswith(SUFFIXES):
        return next((name + suffix for suffix in (*SUFFIXES, ".JPG", ".PNG") if os.path.isfile(path + suffix)), None)
    return None
