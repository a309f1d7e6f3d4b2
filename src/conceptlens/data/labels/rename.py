"""Other people's names for the same things: their classes, columns and values, read as the concept set calls them."""

from dataclasses import replace

import numpy as np

from conceptlens.concepts import ConceptSet, Group
from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.data.labels.columns import Column, Columns
from conceptlens.data.labels.words import LIST_SEPARATOR, fold
from conceptlens.recipes.schema import DataConfig, RenameConfig


def check_rename(rename: RenameConfig, concepts: ConceptSet) -> None:
    """Every name on our side must exist."""
    names = [group.name for group in concepts.groups]
    for key, groups in (("columns", rename.columns), ("values", rename.values)):
        for name in groups:
            if name not in names:
                raise UserError(f"data.rename.{key}: {name!r} is not a group of concepts. {did_you_mean(name, names)}")
    for name, values in rename.values.items():
        for theirs, ours in values.items():
            known = concepts.group(name).values
            if ours not in known:
                raise UserError(
                    f"data.rename.values, {name!r}: {theirs!r} is renamed to {ours!r}, which is not a value of it. "
                    f"{did_you_mean(ours, known)}"
                )
    for theirs, target in rename.classes.items():
        if target is not None and concepts.classes and target not in concepts.classes:
            raise UserError(
                f"data.rename.classes: {theirs!r} is renamed to {target!r}, which is not a class. "
                f"{did_you_mean(target, concepts.classes)}"
            )


def rename_class(name: str, rename: RenameConfig) -> str | None:
    """Our name for their class; None if its images are left out."""
    for theirs, ours in rename.classes.items():
        if fold(theirs) == fold(name):
            return ours
    return name


def rename_table(table: Columns, config: DataConfig, concepts: ConceptSet) -> Columns:
    """The table with our names in it, without the rows of classes that are left out."""
    rename = config.rename
    if not (rename.classes or rename.columns or rename.values):
        return table
    check_rename(rename, concepts)
    for group_name, theirs in rename.columns.items():
        column = table.find(theirs)
        if column is None:
            close = did_you_mean(theirs, table.names)
            raise UserError(f"{table.source}: data.rename.columns names {theirs!r}, which is not a column. {close}")
        table = _replace(table, column, replace(column, name=concepts.group(group_name).column))
    for group_name, values in rename.values.items():
        group = concepts.group(group_name)
        column = table.find(group.column)
        if column is not None:
            table = _replace(table, column, rename_cells(column, values, group))
    classes = table.find(config.class_column)
    if classes is None or not rename.classes:
        return table
    several = config.task == "multilabel"
    renamed = [_rename_classes(cell, rename, several) for cell in classes.values]
    kept = np.array([cell is not None for cell in renamed], dtype=bool)[classes.codes]
    column = replace(classes, values=tuple(cell or "" for cell in renamed))
    return _replace(table, classes, column).keep(kept)


def _replace(table: Columns, old: Column, new: Column) -> Columns:
    if any(column.name == new.name for column in table.columns if column is not old):
        raise UserError(
            f"{table.source}: data.rename.columns would make a second column {new.name!r}; rename that one there."
        )
    columns = tuple(new if column is old else column for column in table.columns)
    return Columns(table.source, columns, table.rows)


def rename_cells(column: Column, values: dict[str, str], group: Group) -> Column:
    """The column with our words for a group's values."""
    ours = {fold(theirs): name for theirs, name in values.items()}

    def rename(cell: str) -> str:
        if group.kind == "exclusive":
            return ours.get(fold(cell), cell)
        words = [word.strip() for word in cell.split(LIST_SEPARATOR)]
        return LIST_SEPARATOR.join(ours.get(fold(word), word) for word in words)

    return replace(column, values=tuple(rename(cell) for cell in column.values))


def _rename_classes(cell: str, rename: RenameConfig, several: bool) -> str | None:
    if not several:
        return rename_class(cell, rename)
    words = [rename_class(word.strip(), rename) for word in cell.split(LIST_SEPARATOR)]
    return LIST_SEPARATOR.join(word for word in words if word)
