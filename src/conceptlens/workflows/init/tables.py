"""Which table speaks of the images, and the row of each image in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from conceptlens.core.errors import UserError
from conceptlens.data.images.dicom import SUFFIXES as DICOM
from conceptlens.data.images.dicom import header_words
from conceptlens.data.images.names import FileNames, words_of
from conceptlens.data.labels.columns import UTF_8, Column, Columns, guess_encoding, read_sheets
from conceptlens.data.labels.words import fold
from conceptlens.data.splits.names import split_of
from conceptlens.workflows.init.columns import group_word, thing_of
from conceptlens.workflows.init.contents import Contents

LEAST = 0.5  # of a table's rows must name an image, or of the images must be in it
SHOWN = 3  # examples
SERIES = "series"  # the column that says which slices belong together
SLICES = 16  # of a series that are used
SERIES_FIELDS = ("SeriesInstanceUID", "StudyInstanceUID", "PatientID", "AccessionNumber")


@dataclass(frozen=True)
class ImageTable:
    """Rows of one table, or of several with the same columns, each with its image."""

    sources: tuple[str, ...]
    image_column: str
    images: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]  # without the image column
    split: tuple[str, ...] | None = None  # by the tables' names, as `train.csv` and `test.csv`
    unmatched: int = 0  # rows whose image is not there
    absent: tuple[str, ...] = ()  # what some of them name
    torn: tuple[str, ...] = ()  # images with several rows that disagree: there the cells are empty
    disputed: tuple[str, ...] = ()  # the columns in which they do
    more: tuple[str, ...] = ()  # columns that name other images of the same rows


def read_tables(contents: Contents) -> tuple[ImageTable | None, list[str]]:
    """The table to use, if any speaks of the images; and what is to be said of the others."""
    files = FileNames(contents.images)
    matched: list[ImageTable] = []
    read: dict[str, Columns] = {}
    others: list[tuple[str, Columns]] = []
    said: list[str] = []
    for file in contents.tables:
        path, encoding = contents.root / file, UTF_8
        try:
            if path.suffix.lower() in (".csv", ".tsv"):
                encoding = guess_encoding(path)
            sheets, left_out = read_sheets(path, encoding)
        except UserError as error:
            said.append(f"{file} cannot be read: {error}")
            continue
        several = len(sheets) + len(left_out) > 1
        said += [f"{_sheet_name(file, sheet, several)} cannot be read: {reason}" for sheet, reason in left_out.items()]
        for sheet, columns in sheets.items():
            name = _sheet_name(file, sheet, several)
            table = _match(contents, name, columns, files)
            if table is None:
                others.append((name, columns))
                continue
            matched.append(table)
            read[name] = columns
            if encoding != UTF_8:
                said.append(f"{name} is not UTF-8: it was read as {encoding}, as Excel writes it. Look at its umlauts.")
    if not matched:
        return None, said + [_why_not(columns, name, files) for name, columns in others]
    families: list[list[ImageTable]] = []
    for table in matched:  # tables with the same columns about different images belong together
        for family in families:
            seen = {image for other in family for image in other.images}
            if {fold(c) for c in table.columns} == {fold(c) for c in family[0].columns} and seen.isdisjoint(
                table.images
            ):
                family.append(table)
                break
        else:
            families.append([table])
    best = max(families, key=lambda family: (sum(len(t.images) for t in family), len(family[0].columns)))
    chosen = _joined(best)
    for table in (table for family in families for table in family if family is not best):
        name = table.sources[0]
        if more := _with_rows_of(chosen, read[name]):
            chosen, key, added = more
            said.append(f"{name} has a row for each {key!r}: {_taken(added)} from there.")
        elif wider := _with_cells_of(chosen, table):
            chosen, added = wider
            said.append(f"{name} speaks of the same images: {_taken(added)} from there.")
        else:
            said.append(f"{name} also names images; it is not used.")
    for name, columns in others:
        if more := _with_rows_of(chosen, columns):
            chosen, key, added = more
            said.append(f"{name} has a row for each {key!r}: {_taken(added)} from there.")
        else:
            said.append(_why_not(columns, name, files))
    return chosen, said


def _taken(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} taken"


def _with_cells_of(table: ImageTable, other: ImageTable) -> tuple[ImageTable, list[str]] | None:
    """The table with what another one says of the same images, and what was added.

    A patient's number may be an image's number by chance.
    """
    if group_word(other.image_column, ()) and thing_of(other.image_column) != thing_of(table.image_column):
        return None
    row_of = {image: row for row, image in enumerate(other.images)}
    rows = [row_of.get(image) for image in table.images]
    known = {fold(name) for name in table.columns}
    added = {name: cells for name, cells in other.columns.items() if fold(name) not in known}
    if not added or all(row is None for row in rows):
        return None
    cells = {name: tuple("" if row is None else said[row] for row in rows) for name, said in added.items()}
    return replace(table, columns={**table.columns, **cells}), list(added)


def _with_rows_of(table: ImageTable, other: Columns) -> tuple[ImageTable, str, list[str]] | None:
    """The table with the columns of another one that has a row for each patient, the key, and what was added."""
    for key in other.columns:
        name = next((name for name in table.columns if thing_of(name) == thing_of(key.name) != frozenset()), None)
        texts = key.texts()
        row_of = {fold(text): row for row, text in enumerate(texts) if text}
        if name is None or len(row_of) < sum(map(bool, texts)):
            continue  # no key: nothing in the table is called so, or several rows are of one patient
        rows = [row_of.get(fold(cell)) for cell in table.columns[name]]
        added = {
            column.name: column.texts() for column in other.columns if column.name not in (*table.columns, key.name)
        }
        if added and sum(row is not None for row in rows) >= LEAST * len(rows):
            cells = {column: tuple("" if row is None else said[row] for row in rows) for column, said in added.items()}
            return replace(table, columns={**table.columns, **cells}), name, list(added)
    return None


def _sheet_name(file: str, sheet: str, several: bool) -> str:
    return f"{file}, sheet {sheet!r}" if several else file


def _image_columns(table: Columns, name: str, files: FileNames) -> list[tuple[int, str, list[str | None]]]:
    """Columns that name images: how many, the column's name, and the image of each row; first the one with most."""
    found = []
    for column in table.columns:
        known = [files.find(value, name) if value else None for value in column.values]
        cells = [known[code] for code in column.codes.tolist()]
        found.append((len({cell for cell in cells if cell}), column.name, cells))
    return sorted(found, key=lambda each: -each[0]) or [(0, "", [])]


def _why_not(table: Columns, name: str, files: FileNames) -> str:
    """What a table that is not used lacks."""
    count, column, cells = _image_columns(table, name, files)[0]
    if not count:
        shown = ", ".join(repr(column.name) for column in table.columns[:SHOWN])
        return (
            f"{name} names none of the images (columns {shown}{' …' * (len(table.columns) > SHOWN)}); it is not used."
        )
    texts = next(each for each in table.columns if each.name == column).texts()
    absent = [text for text, cell in zip(texts, cells, strict=True) if cell is None][:SHOWN]
    return (
        f"{name}: {count:,} of {len(table):,} rows name an image, in the column {column!r}; half of them must, or "
        f"half of the images must be named. Not here: {', '.join(absent)}. It is not used."
    )


def _match(contents: Contents, name: str, table: Columns, files: FileNames) -> ImageTable | None:
    (count, image_column, cells), *others = _image_columns(table, name, files)
    if not count or count < LEAST * min(len(table), len(contents.images)):
        return _match_series(contents, name, table)
    rows: dict[str, list[int]] = {}
    for row, image in enumerate(cells):
        if image:
            rows.setdefault(image, []).append(row)
    columns: dict[str, tuple[str, ...]] = {}
    torn: dict[str, None] = {}
    disputed: list[str] = []
    for column in table.columns:
        if column.name == image_column:
            continue
        texts = column.texts()
        said = {image: {texts[row] for row in its} for image, its in rows.items()}
        differ = [image for image, values in said.items() if len(values) > 1]
        columns[column.name] = tuple("" if len(values) > 1 else next(iter(values)) for values in said.values())
        torn |= dict.fromkeys(differ)
        disputed += [column.name] * bool(differ)
    texts = next(column for column in table.columns if column.name == image_column).texts()
    absent = [text for text, cell in zip(texts, cells, strict=True) if cell is None]
    some = tuple(filter(None, absent))[:SHOWN]
    more = tuple(
        column
        for number, column, its in others
        if number >= LEAST * count and rows.keys().isdisjoint(filter(None, its))
    )
    return ImageTable(
        (name,), image_column, tuple(rows), columns, None, len(absent), some, tuple(torn), tuple(disputed), more
    )


def _match_series(contents: Contents, name: str, table: Columns) -> ImageTable | None:
    """A table whose rows name a folder of slices, or a series, a study or a patient of DICOM headers."""
    sets = image_sets(contents)
    found = {
        column.name: [sets.get(value.casefold().strip("/")) for value in column.values] for column in table.columns
    }

    def share(column: Column) -> float:
        known = found[column.name]
        return sum(known[code] is not None for code in column.codes.tolist()) / max(len(table), 1)

    best = max(table.columns, key=share, default=None)
    if best is None or share(best) < LEAST:
        return None
    pairs = [(row, image) for row, code in enumerate(best.codes.tolist()) for image in found[best.name][code] or ()]
    if len({image for _, image in pairs}) < len(pairs):
        return None  # one image in two rows
    columns = {SERIES: tuple(best.values[best.codes[row]] for row, _ in pairs)}
    for column in table.columns:
        if column is not best:
            texts = column.texts()
            columns[column.name] = tuple(texts[row] for row, _ in pairs)
    named = {row for row, _ in pairs}
    absent = [text for row, text in enumerate(best.texts()) if row not in named]
    images = tuple(image for _, image in pairs)
    return ImageTable((name,), best.name, images, columns, unmatched=len(absent), absent=tuple(absent[:SHOWN]))


def image_sets(contents: Contents) -> dict[str, tuple[str, ...]]:
    """Name of a folder, or an identifier in DICOM headers → some of its images, evenly spread."""
    sets: dict[str, list[str]] = {}
    for image in contents.images:
        path = PurePosixPath(image)
        names = {str(path.parent), path.parent.name}
        if image.lower().endswith(DICOM):
            names |= set(header_words(contents.root / image, SERIES_FIELDS).values())
        for name in names - {".", ""}:
            sets.setdefault(name.casefold(), []).append(image)
    return {name: tuple(some(images, SLICES)) for name, images in sets.items()}


def some(items: Sequence[str], most: int) -> list[str]:
    """At most so many, evenly spread."""
    step = max(1.0, len(items) / most)
    return [items[int(place * step)] for place in range(min(most, len(items)))]


def _joined(family: Sequence[ImageTable]) -> ImageTable:
    first = family[0]
    sides = [_split_word(table.sources[0]) for table in family]
    split = None
    if len(family) > 1 and "train" in sides and all(sides):
        split = tuple(str(side) for side, table in zip(sides, family, strict=True) for _ in table.images)
    columns: dict[str, tuple[str, ...]] = {}
    for name in first.columns:
        parts = [{fold(key): cells for key, cells in table.columns.items()}[fold(name)] for table in family]
        columns[name] = tuple(cell for part in parts for cell in part)
    return ImageTable(
        tuple(source for table in family for source in table.sources),
        first.image_column,
        tuple(image for table in family for image in table.images),
        columns,
        split,
        sum(table.unmatched for table in family),
        tuple(text for table in family for text in table.absent),
        tuple(image for table in family for image in table.torn),
        tuple(dict.fromkeys(name for table in family for name in table.disputed)),
        first.more,
    )


def _split_word(name: str) -> str | None:
    """The split that a table's name speaks of."""
    sides = {split_of(word) for word in words_of(PurePosixPath(name).name)} - {None}
    return sides.pop() if len(sides) == 1 else None
