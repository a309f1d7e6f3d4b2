"""A table in memory, one column at a time: each distinct cell is kept once, so a long table stays small."""

import codecs
import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import UNREADABLE, UserError, unreadable
from conceptlens.core.regular import check_regular
from conceptlens.core.spreadsheet import bounded_lines, read_cell
from conceptlens.data.checks.findings import Problems
from conceptlens.data.labels.words import LIST_SEPARATOR, fold

UTF_8 = "utf-8-sig"
_DELIMITERS = (",", ";", "\t")
_CHUNK = 8192  # rows turned into codes at a time
EXCEL_ROWS = 1_048_576  # of a sheet; a damaged one may announce any number
TITLES = 1000  # rows of a sheet in which its header is looked for
WIDTH = 2 / 3  # of the usual row's filled cells that a header has at least
MOST_UNPACKED = 2**30  # bytes of the parts of an Excel file


@dataclass(frozen=True)
class Column:
    """N cells: `values[codes[i]]` is the text of row i, without spaces around it."""

    name: str
    codes: npt.NDArray[np.int32]  # (N,)
    values: tuple[str, ...]

    def texts(self) -> tuple[str, ...]:
        """All N cells; equal cells share their memory."""
        return tuple([self.values[code] for code in self.codes.tolist()])

    def where(self, code: int) -> npt.NDArray[np.int64]:
        """Positions of the rows that hold this value."""
        return np.flatnonzero(self.codes == code)


@dataclass(frozen=True)
class Columns:
    """The columns of one table."""

    source: str  # for messages
    columns: tuple[Column, ...]
    rows: npt.NDArray[np.int64]  # (N,) each row's number in the file as a spreadsheet counts: the header is row 1

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @cached_property
    def _folded(self) -> dict[str, list[Column]]:
        folded: dict[str, list[Column]] = {}
        for column in self.columns:
            folded.setdefault(fold(column.name), []).append(column)
        return folded

    def find(self, name: str) -> Column | None:
        """The column of that name; capitals, spaces, hyphens and underscores may differ if only one column fits."""
        fitting = self._folded.get(fold(name), [])
        exact = [column for column in fitting if column.name == name]
        if len(exact) == 1 or len(fitting) == 1:
            return (exact or fitting)[0]
        if fitting:
            found = ", ".join(repr(column.name) for column in fitting)
            raise UserError(f"{self.source}: the column {name!r} could be any of {found}; rename all but one.")
        return None

    def keep(self, rows: npt.NDArray[np.bool_]) -> "Columns":
        """The table without the rows that are not marked."""
        columns = tuple(replace(column, codes=column.codes[rows]) for column in self.columns)
        return Columns(self.source, columns, self.rows[rows])


def read_columns(path: Path, problems: Problems, *, expect: str, encoding: str = UTF_8) -> Columns:
    """A CSV, Excel or Parquet file.

    Args:
        path: The file; Parquet if it is called .parquet or .pq, Excel if .xlsx (of its sheets that hold a table the
            one with the expected column, else the first), else text separated by comma, semicolon or tab.
        problems: Receives what is wrong with single rows.
        expect: A column that must be there; it tells separators and sheets apart.
        encoding: Of text.
    """
    if path.suffix.lower() in {".parquet", ".pq"}:
        return _read_parquet(path)
    check_regular(path)
    if path.suffix.lower() == ".xls":
        raise UserError(f"{path}: the old format of Excel is not read. Save it as .xlsx or CSV UTF-8.")
    if path.suffix.lower() == ".xlsx":
        return next(iter(_read_excel(path, with_column=expect)[0].values()))
    try:
        with path.open("rb") as file:
            return read_csv(file, str(path), problems, expect=expect, encoding=encoding)
    except UNREADABLE as error:
        raise unreadable(error, path, "a table") from None


def read_sheets(path: Path, encoding: str = UTF_8) -> tuple[dict[str, Columns], dict[str, str]]:
    """The tables of a file by sheet, and why the other sheets cannot be read. Text and Parquet are one sheet, `""`."""
    if path.suffix.lower() == ".xlsx":
        check_regular(path)
        return _read_excel(path)
    return {"": read_columns(path, Problems(strict=False), expect="image", encoding=encoding)}, {}


def guess_encoding(path: Path) -> str:
    """Of a CSV file: UTF-8 where it is that, else what Excel writes on Windows."""
    check_regular(path)
    decoder = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        file.seek(0)
        try:
            while piece := file.read(2**20):
                decoder.decode(piece)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return UTF_8


def read_csv(
    file: io.BufferedIOBase | io.RawIOBase, source: str, problems: Problems, *, expect: str, encoding: str = UTF_8
) -> Columns:
    """A table from an open binary file of text; UTF-8 with or without a byte order mark if nothing else is said."""
    text = io.TextIOWrapper(file, encoding=encoding, newline="")  # type: ignore[type-var]
    try:
        sample = text.read(65536)
        text.seek(0)
        reader = csv.reader(bounded_lines(text, source), delimiter=_delimiter(sample, expect))
        header = [read_cell(name.strip()) for name in next(reader, [])]
        if not any(header):
            raise UserError(f"{source}: expected a table whose first row names its columns, found none.")
        _refuse_repeated(header, source)
        rows = _whole_rows(reader, len(header), source, problems)
        return _encode(header, rows, source)
    except UnicodeDecodeError as error:
        raise UserError(
            f"{source}: expected UTF-8 text, but {error.reason} at byte {error.start}. "
            "In a spreadsheet, save it as “CSV UTF-8 (comma delimited)”."
        ) from None
    except csv.Error as error:
        raise UserError(f"{source}: not a table that can be read: {error}.") from None


def columns_of(columns: Mapping[str, Sequence[Any]], count: int, *, source: str) -> Columns:
    """Columns of values that are in memory, all of them `count` long."""
    rows = zip(*([text_of(value) for value in values] for values in columns.values()), strict=True)
    numbered = enumerate((list(row) for row in rows), start=2)
    table = _encode(list(columns), numbered, source)
    return table if columns else Columns(source, (), np.arange(2, count + 2, dtype=np.int64))


def _delimiter(sample: str, expect: str) -> str:
    """The separator under which the expected column appears, or else the one that makes most columns."""

    def fit(delimiter: str) -> tuple[bool, int]:
        header = next(csv.reader(io.StringIO(sample), delimiter=delimiter), [])
        return any(fold(name) == fold(expect) for name in header), len(header)

    return max(_DELIMITERS, key=fit)


def _refuse_repeated(header: list[str], source: str) -> None:
    times = Counter(name for name in header if name)
    repeated = sorted(name for name, count in times.items() if count > 1)
    if repeated:
        raise UserError(
            f"{source}: the column {repeated[0]!r} is there {times[repeated[0]]} times; rename all but one."
        )


def _whole_rows(reader: Any, width: int, source: str, problems: Problems) -> Iterator[tuple[int, list[str]]]:
    """(row number, cells) of the rows that have as many cells as the header; blank rows are skipped."""
    broken: list[int] = []
    for number, cells in enumerate(reader, start=2):
        if len(cells) > width and not any(cell.strip() for cell in cells[width:]):
            cells = cells[:width]
        if len(cells) == width:
            if any(cells):
                yield number, [read_cell(cell) if cell[:1] == "'" else cell for cell in cells]
        elif any(cell.strip() for cell in cells):
            broken.append(number)
            if len(broken) == 1 and problems.strict:
                break
    if broken:
        problems.add(
            "error",
            "ragged-table",
            f"{source}: row {broken[0]} has not the header's {width} cells; is a text with a separator not in quotes?",
            count=len(broken),
            examples=[f"row {number}" for number in broken],
        )


def _encode(header: list[str], rows: Iterable[tuple[int, list[str]]], source: str) -> Columns:
    """Cells to codes, a chunk of rows at a time; a name of two lines becomes one of one."""
    known: list[dict[str, int]] = [{} for _ in header]
    codes: list[list[npt.NDArray[np.int32]]] = [[] for _ in header]
    numbers: list[int] = []
    chunk: list[list[str]] = []

    def flush() -> None:
        for values, pieces, cells in zip(known, codes, zip(*chunk, strict=True), strict=True):
            stripped = (cell.strip() for cell in cells)
            pieces.append(
                np.fromiter((values.setdefault(cell, len(values)) for cell in stripped), np.int32, len(chunk))
            )
        chunk.clear()

    for number, cells in rows:
        numbers.append(number)
        chunk.append(cells)
        if len(chunk) == _CHUNK:
            flush()
    if chunk:
        flush()
    columns = tuple(
        Column(" ".join(name.split()), np.concatenate(pieces) if pieces else np.empty(0, np.int32), tuple(values))
        for name, pieces, values in zip(header, codes, known, strict=True)
        if name
    )
    return Columns(source, columns, np.array(numbers, dtype=np.int64))


def _read_excel(path: Path, *, with_column: str | None = None) -> tuple[dict[str, Columns], dict[str, str]]:
    """The sheets that hold a table: values as they are shown, formulas by what Excel last computed.

    Sheets that cannot be read are left out, with the reasons in the second mapping. With `with_column`, one sheet is
    read: the first with that column, or the first of all.
    """
    try:
        import openpyxl
    except ImportError:
        raise UserError(
            f"{path}: reading Excel needs openpyxl: pip install 'conceptlens[excel]', or save it as CSV UTF-8."
        ) from None
    from zipfile import ZipFile

    try:
        with ZipFile(path) as packed:
            size = sum(part.file_size for part in packed.infolist())
        if size > MOST_UNPACKED:
            raise UserError(f"{path}: would unpack to {size:,} bytes. Save it as CSV UTF-8.")
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        tables: dict[str, Columns] = {}
        left_out: dict[str, str] = {}
        sheets = list(_excel_tables(book.worksheets))
        if with_column is not None:
            sheets = [next((sheet for sheet in sheets if fold(with_column) in map(fold, sheet[2])), sheets[0])]
        for name, rows, header, first in sheets:
            try:
                _refuse_repeated(header, str(path))
                tables[name] = _encode(header, _excel_rows(rows, len(header), first, path), str(path))
            except UserError as error:
                if with_column is not None:
                    raise
                left_out[name] = str(error)
        return tables, left_out
    except UserError:
        raise
    except UNREADABLE as error:
        raise unreadable(error, path, "a table") from None
    except Exception as error:  # it meets damaged files with every kind of exception, of zip, of XML, of its own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise UserError(f"{path}: not an Excel file that can be read: {reason}. Save it as .xlsx or CSV.") from None


def _excel_tables(sheets: Sequence[Any]) -> Iterator[tuple[str, Iterator[Any], list[str], int]]:
    """Of each sheet with a table its title, its rows, the header, and the number of the row after it.

    The header is the first row with two filled cells that is not much narrower than the usual row: above it stand
    titles and legends. Where no sheet has one, the first stands for all.
    """
    none = True
    for sheet in sheets:
        rows = sheet.iter_rows(values_only=True)
        top = [_filled(row) for row in islice(rows, TITLES)]
        counts = [sum(map(bool, row)) for row in top]
        least = max(2.0, WIDTH * median(filter(None, counts))) if any(counts) else 2.0
        place = next((place for place, count in enumerate(counts) if count >= least), None)
        if place is not None:
            none = False
            rows = islice(sheet.iter_rows(values_only=True), place + 1, None)
            yield sheet.title, rows, top[place], place + 2
    if none:
        rows = sheets[0].iter_rows(values_only=True)
        yield sheets[0].title, rows, _filled(next(rows, ())), 2


def _filled(row: Sequence[Any]) -> list[str]:
    """The cells up to the last that holds something: sheets are as wide as anyone ever typed."""
    cells = [text_of(cell).strip() for cell in row]
    return cells[: max((number for number, cell in enumerate(cells, start=1) if cell), default=0)]


def _excel_rows(rows: Iterator[Any], width: int, first: int, path: Path) -> Iterator[tuple[int, list[str]]]:
    """(row number, as many cells as the header has) of the rows that hold something; sheets are as long as wide."""
    for number, row in enumerate(rows, start=first):
        if number > EXCEL_ROWS:
            raise UserError(f"{path}: row {number:,}; a sheet has at most {EXCEL_ROWS:,}. Save it as CSV UTF-8.")
        row = row[:width]
        if any(cell is not None for cell in row):
            cells = [text_of(cell) for cell in row]
            if any(cell.strip() for cell in cells):
                yield number, cells + [""] * (width - len(cells))


def _read_parquet(path: Path) -> Columns:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise UserError(
            f"{path}: reading Parquet needs pyarrow: pip install conceptlens[parquet], or save as CSV."
        ) from None
    if not path.is_file():
        raise UserError(f"{path}: no such file.")
    try:
        with pq.ParquetFile(path) as file:
            return arrow_columns(file.schema_arrow, lambda names: file.iter_batches(_CHUNK, columns=names), str(path))
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a Parquet file that can be read: {str(error).splitlines()[0]}") from None


def arrow_columns(schema: Any, batches: Callable[[list[str]], Iterable[Any]], source: str) -> Columns:
    """Those columns of an Arrow table that hold words, numbers, dates or lists of them.

    Args:
        schema: The table's.
        batches: Gives the record batches of the columns of these names.
        source: For messages.
    """
    import pyarrow as pa

    fields = [field for field in schema if not field.name.startswith("__") and _is_plain(pa.types, field.type)]
    header = [field.name.strip() for field in fields]
    _refuse_repeated(header, source)
    names = [field.name for field in fields]

    def rows() -> Iterator[tuple[int, list[str]]]:
        number = 2
        for batch in batches(names):
            cells = [[text_of(value) for value in batch.column(name).to_pylist()] for name in names]
            for row in zip(*cells, strict=True):
                yield number, list(row)
                number += 1

    return _encode(header, rows(), source)


def _is_plain(types: Any, kind: Any) -> bool:
    """Columns of words, numbers, dates or lists of them; bytes and nested records are left out."""
    if types.is_dictionary(kind):
        return _is_plain(types, kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind):
        return _is_plain(types, kind.value_type)
    return bool(
        types.is_primitive(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_decimal(kind)
    )


def text_of(value: Any) -> str:
    """A cell as a CSV would have it; whole numbers lose the `.0` that missing values give them."""
    if hasattr(value, "tolist"):  # of numpy or torch
        value = value.tolist()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, datetime) and not (value.hour or value.minute or value.second):
        value = value.date()
    if isinstance(value, list | tuple):
        return LIST_SEPARATOR.join(text_of(item) for item in value)
    return str(value)
