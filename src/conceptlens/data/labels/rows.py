"""Labels from a table's columns: classes, concepts, splits, groups, certainty; what is left over is metadata."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.data.checks.findings import Problems, numbered_rows
from conceptlens.data.dataset import UNLABELED, Examples
from conceptlens.data.labels.classes import class_index, concepts_of_classes, order_classes, report_unknown_class
from conceptlens.data.labels.columns import Column, Columns
from conceptlens.data.labels.concept_labels import fill_from_classes, read_concept_labels, report_misspelled
from conceptlens.data.labels.words import LIST_SEPARATOR, NONE_OF_THEM, fold, is_missing, match
from conceptlens.data.splits.names import split_of
from conceptlens.recipes.schema import DataConfig

_LIKELY_CLASS_COLUMNS = ("label", "labels", "classes", "diagnosis", "dx", "target", "category", "y")


def examples_of(
    table: Columns, ids: tuple[str, ...], config: DataConfig, concepts: ConceptSet, problems: Problems
) -> tuple[tuple[str, ...], Examples]:
    """Class names, and everything the table knows of its N images.

    Args:
        table: The columns, N rows.
        ids: The images' names.
        config: Names of the columns, the task, the order of the classes.
        concepts: The concept set whose labels are read.
        problems: Receives cells that cannot be understood.
    """
    image = find_column(table, config, "image_column")
    split = find_column(table, config, "split_column")
    group = find_column(table, config, "group_column")
    certainty = find_column(table, config, "certainty_column")
    class_ = find_column(table, config, "class_column")
    classes, labels = _class_labels(table, class_, config, concepts, problems)
    read = read_concept_labels(table, concepts, problems, row_certainty=certainty)
    by_class = concepts_of_classes(concepts, classes, labels, config.task)
    claimed = read.used | {column.name for column in (image, split, group, certainty, class_) if column is not None}
    report_misspelled(read.absent, table, claimed, problems)
    return classes, Examples(
        ids=ids,
        labels=labels,
        concepts=fill_from_classes(read, by_class, concepts),
        split=_splits(table, split, problems),
        group=None if group is None else tuple("" if is_missing(name) else name for name in group.texts()),
        certainty=read.certainty,
        metadata={column.name: column.texts() for column in table.columns if column.name not in claimed},
    )


def find_column(table: Columns, config: DataConfig, key: str, *, required: bool = False) -> Column | None:
    """The column a key of the recipe names; one that is named differently from the default must be there."""
    name = getattr(config, key)
    found = table.find(name)
    default = name == getattr(DataConfig(""), key)
    if found is None and (required or not default):
        hint = " `conceptlens init` of the folder finds the columns of tables as people have them." if default else ""
        raise UserError(
            f"{table.source}: there is no column {name!r}. {did_you_mean(name, table.names)} "
            f"Set data.{key} to the column's name.{hint}"
        )
    return found


def _class_labels(
    table: Columns, column: Column | None, config: DataConfig, concepts: ConceptSet, problems: Problems
) -> tuple[tuple[str, ...], npt.NDArray[np.int64]]:
    """Class names, and labels (N,) or, for a multi-label task, (N, C)."""
    several = config.task == "multilabel"
    if column is None:
        likely = [name for name in table.names if fold(name) in _LIKELY_CLASS_COLUMNS]
        if likely:
            raise UserError(
                f"{table.source}: there is no column {config.class_column!r}. If it is {likely[0]!r}, "
                "set data.class_column to that."
            )
        problems.add(
            "warning", "no-classes", f"{table.source}: there is no class column; the images are read without classes."
        )
        classes = order_classes([], wanted=config.classes, concepts=concepts, task=config.task, source=table.source)
        shape = (len(table), len(classes)) if several else (len(table),)
        return classes, np.full(shape, UNLABELED, dtype=np.int64)

    words = [_class_words(cell, several) for cell in column.values]
    in_use = np.unique(column.codes).tolist()
    found = sorted({word for code in in_use for word in words[code]})
    declared = config.classes or concepts.classes
    known = [word for word in found if not _says_nothing(word, declared, several)]
    classes = order_classes(known, wanted=config.classes, concepts=concepts, task=config.task, source=table.source)
    rows = np.full((len(words), len(classes)), UNKNOWN, dtype=np.int64)
    hint = f" Several classes are separated by {LIST_SEPARATOR!r}." if several else ""
    for code in in_use:
        named = [word for word in words[code] if not _says_nothing(word, classes, several)]
        indices = {word: class_index(word, classes) for word in named}
        bad = next((word for word, number in indices.items() if number is None), None)
        if bad is not None:
            at = column.where(code)
            place = f"{table.source}: {numbered_rows(table.rows[at].tolist())}, column {column.name!r}"
            report_unknown_class(bad, classes, place=place, count=len(at), problems=problems, hint=hint)
        elif named or (several and fold(column.values[code]) == NONE_OF_THEM):
            rows[code] = 0
            rows[code, [number for number in indices.values() if number is not None]] = 1
    if several:
        return classes, rows[column.codes]
    single = np.where((rows == 1).any(1), rows.argmax(1), UNLABELED)
    return classes, single[column.codes]


def _class_words(cell: str, several: bool) -> list[str]:
    return [word.strip() for word in cell.split(LIST_SEPARATOR)] if several else [cell]


def _says_nothing(word: str, classes: Sequence[str], several: bool) -> bool:
    """A blank, or a word for it, that is not the name of a class."""
    return (is_missing(word) or (several and fold(word) == NONE_OF_THEM)) and not match(word, classes)


def _splits(table: Columns, column: Column | None, problems: Problems) -> tuple[str, ...] | None:
    """The given split of each row; None if no row has one."""
    if column is None:
        return None
    names = []
    for code, cell in enumerate(column.values):
        side = "" if is_missing(cell) else split_of(cell)
        rows = table.rows[column.where(code)]
        if side is None and len(rows):
            problems.add(
                "error",
                "unknown-split",
                f"{table.source}: {numbered_rows(rows.tolist())}, column {column.name!r}: {cell!r} is not a split. "
                f"{did_you_mean(cell, ('train', 'val', 'test'))} A blank leaves the image out.",
                count=len(rows),
            )
        names.append(side or "")
    given = tuple(names[code] for code in column.codes.tolist())
    return given if any(given) else None
