"""Which table speaks of the images, and the row of each image in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from conceptlens.core.errors import UserError
from conceptlens.data.checks.findings import Problems
from conceptlens.data.images.names import FileNames, words_of
from conceptlens.data.labels.columns import read_columns
from conceptlens.data.labels.words import fold
from conceptlens.data.splits.names import split_of
from conceptlens.workflows.init.contents import Contents

LEAST = 0.5  # of a table's rows must name an image


@dataclass(frozen=True)
class ImageTable:
    """Rows of one table, or of several with the same columns, each with its image."""

    sources: tuple[str, ...]
    image_column: str
    images: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]  # without the image column
    split: tuple[str, ...] | None = None  # by the tables' names, as `train.csv` and `test.csv`
    unmatched: int = 0  # rows whose image is not there


def read_tables(contents: Contents) -> tuple[ImageTable | None, list[str]]:
    """The table to use, if any speaks of the images; and what is to be said of the others."""
    files = FileNames(contents.images)
    matched: list[ImageTable] = []
    said: list[str] = []
    for name in contents.tables:
        try:
            table = _match(contents, name, files)
        except UserError as error:
            said.append(f"{name} cannot be read: {error}")
            continue
        if table is None:
            said.append(f"{name} names none of the images; it is not used.")
        else:
            matched.append(table)
    if not matched:
        return None, said
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
    said += [
        f"{table.sources[0]} also names images; it is not used."
        for family in families
        for table in family
        if family is not best
    ]
    return _joined(best), said


def _match(contents: Contents, name: str, files: FileNames) -> ImageTable | None:
    table = read_columns(contents.root / name, Problems(strict=False), expect="image")
    best: tuple[int, str, list[str | None]] = (0, "", [])
    for column in table.columns:
        known = [files.find(value, name) if value else None for value in column.values]
        cells = [known[code] for code in column.codes.tolist()]
        found = len({cell for cell in cells if cell})
        if found > best[0]:
            best = (found, column.name, cells)
    count, image_column, cells = best
    if not len(table) or count < LEAST * len(table):
        return None
    rows: dict[str, int] = {}
    for row, image in enumerate(cells):
        if image:
            rows.setdefault(image, row)
    kept = list(rows.values())
    columns = {}
    for column in table.columns:
        if column.name != image_column:
            texts = column.texts()
            columns[column.name] = tuple(texts[row] for row in kept)
    unmatched = sum(cell is None for cell in cells)
    return ImageTable((name,), image_column, tuple(rows), columns, unmatched=unmatched)


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
    )


def _split_word(name: str) -> str | None:
    """The split that a table's name speaks of."""
    sides = {split_of(word) for word in words_of(PurePosixPath(name).stem)} - {None}
    return sides.pop() if len(sides) == 1 else None
