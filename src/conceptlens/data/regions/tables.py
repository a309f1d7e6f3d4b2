"""Boxes and points from tables: numbers checked row by row, names of images matched to those of a source."""

import math
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.data.checks.findings import Problems
from conceptlens.data.labels.columns import Column, Columns, read_columns
from conceptlens.data.labels.words import is_missing, yes_no

Floats = npt.NDArray[np.float64]
OBJECT = "object"


class Row(NamedTuple):
    """A box or a point of one image."""

    part: str
    values: tuple[float, ...]  # none: known not to be seen
    number: str  # for messages: the table and the row


class ImageNames:
    """Finds the images that tables speak of: by id, or by a file name that only one image has."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids
        self._known: dict[str, int | None] = {}
        for index, name in enumerate(ids):
            path = PurePosixPath(name)
            for word in {str(path.with_suffix("")) if path.name else name, path.name, path.stem}:
                self._known[word] = None if word in self._known else index  # of two images alike, neither
        self._known |= {name: index for index, name in enumerate(ids)}

    def index(self, word: str) -> int | None:
        """Position of the image, None if there is none, or more than one."""
        path = PurePosixPath(word.replace("\\", "/"))
        for name in (word, str(path), str(path.with_suffix("")) if path.name else word, path.stem):
            if self._known.get(name) is not None:
                return self._known[name]
        return None


def read_rows(path: Path, key: str, wanted: Sequence[str], names: ImageNames) -> dict[int, list[Row]]:
    """The rows of a table by image. Hidden rows (`visible` is no) and rows without numbers are left out.

    Args:
        path: CSV or Parquet with `image`, `wanted` and perhaps `part` and `visible`.
        key: Of the recipe, for messages.
        wanted: Columns of numbers.
        names: The images.
    """
    table = read_columns(path, Problems(), expect="image")
    image, part, visible = _column(table, "image", key), table.find("part"), table.find("visible")
    numbers = [_numbers(table, _column(table, name, key)) for name in wanted]
    seen = np.ones(len(table), dtype=bool) if visible is None else _answers(table, visible)
    known = [names.index(word) for word in image.values]  # each name is looked up once, however many rows it has
    numbered = table.rows.tolist()
    rows: dict[int, dict[str, Row]] = {}
    columns = zip(
        image.codes.tolist(),
        [OBJECT] * len(table) if part is None else part.texts(),
        seen.tolist(),
        zip(*(column.tolist() for column in numbers), strict=True),
        strict=True,
    )
    for position, (code, name, shown, values) in enumerate(columns):
        index = known[code]
        if index is None:
            continue
        place = f"{table.source}: row {numbered[position]}"
        if not name:
            raise UserError(f"{place}: expected the name of a part, found a blank.")
        if name in rows.setdefault(index, {}):
            raise UserError(
                f"{place}: {name!r} of {image.values[code]!r} was given in an earlier row; keep one of them."
            )
        blank = sum(map(math.isnan, values))
        if shown and 0 < blank < len(values):
            raise UserError(f"{place}: some of {', '.join(wanted)} are blank; fill in all of them or none.")
        rows[index][name] = Row(name, values if shown and not blank else (), place)
    if not rows:
        example = next((word for word in image.texts() if word), "")
        raise UserError(
            f"{path}: names none of the images of the data; for example {example!r}, where the data has "
            f"{names.ids[0]!r}. data.regions.{key} needs the same names in its column `image`."
        )
    return {index: list(found.values()) for index, found in rows.items()}


def _column(table: Columns, name: str, key: str) -> Column:
    found = table.find(name)
    if found is None:
        raise UserError(
            f"{table.source}: data.regions.{key} needs a column {name!r}. {did_you_mean(name, table.names)}"
        )
    return found


def _numbers(table: Columns, column: Column) -> Floats:
    """The column's cells (N,), blanks as NaN."""
    values = np.full(len(column.values), np.nan)
    for code, cell in enumerate(column.values):
        if is_missing(cell):
            continue
        try:
            values[code] = float(cell)
        except ValueError:
            values[code] = np.inf
        if np.isinf(values[code]) and len(rows := column.where(code)):
            raise UserError(
                f"{table.source}: row {table.rows[rows[0]]}, column {column.name!r}: expected a number, found {cell!r}."
            )
    return values[column.codes]


def _answers(table: Columns, column: Column) -> npt.NDArray[np.bool_]:
    """Whether each row's part is visible; a blank is a no."""
    answers = np.zeros(len(column.values), dtype=bool)
    for code, cell in enumerate(column.values):
        answer = False if is_missing(cell) else yes_no(cell)
        if answer is None and len(rows := column.where(code)):
            raise UserError(
                f"{table.source}: row {table.rows[rows[0]]}, column {column.name!r}: expected yes or no (1 or 0), "
                f"found {cell!r}."
            )
        answers[code] = bool(answer)
    return answers[column.codes]
