"""Published files in, tables and links out."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from pathlib import Path

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_text, write_text
from conceptlens.core.spreadsheet import csv_text

Row = dict[str, str]


def lines(path: Path) -> list[list[str]]:
    """The words of each line."""
    return [line.split() for line in read(path).splitlines() if line.strip()]


def numbered(path: Path) -> dict[str, str]:
    """A file of `number name` a line."""
    return {number: " ".join(words) for number, *words in lines(path)}


def rows(path: Path, *needed: str) -> list[Row]:
    """A CSV file with at least these columns; spaces around column names are dropped."""
    table = csv.DictReader(StringIO(read(path)))
    columns = [name.strip() for name in table.fieldnames or []]
    if missing := [name for name in needed if name not in columns]:
        raise UserError(
            f"{path} has no column {', '.join(missing)}; it has {', '.join(filter(None, columns)) or 'none'}."
        )
    return [{key.strip(): value for key, value in row.items() if key} for row in table]


def read(path: Path) -> str:
    try:
        return read_text(path).removeprefix("\ufeff")
    except FileNotFoundError:
        raise UserError(f"{path} is not there. Expected the folder as its source publishes it.") from None


def write(path: Path, header: Sequence[str], cells: Iterable[Sequence[object]]) -> None:
    """A CSV file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, csv_text([header, *cells]))


def write_rows(path: Path, found: Sequence[Mapping[str, str]]) -> None:
    write(path, list(found[0]), (list(row.values()) for row in found))


def link(path: Path, target: Path) -> None:
    """A link to a file or a folder, in place of an earlier one."""
    if not target.exists():
        raise UserError(f"{target} is not there. Expected the folder as its source publishes it.")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        path.unlink()
    if not path.exists():
        path.symlink_to(target.resolve())
