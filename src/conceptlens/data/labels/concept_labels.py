"""Concept labels from a table's columns. What nobody filled in stays unknown; a word that means nothing is an error."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import UNKNOWN, ConceptSet, Group
from conceptlens.core.errors import closest, did_you_mean
from conceptlens.data.checks.findings import Problems, numbered_rows
from conceptlens.data.dataset import no_concepts
from conceptlens.data.labels.columns import Column, Columns
from conceptlens.data.labels.words import LIST_SEPARATOR, NONE_OF_THEM, fold, is_missing, match_value, yes_no

_ALMOST = 0.85  # likeness from which a column's name is a group's name misspelled


@dataclass(frozen=True)
class ConceptLabels:
    """What a table says of K concepts in N images."""

    labels: npt.NDArray[np.int8]  # (N, K) of 0, 1, UNKNOWN
    certainty: npt.NDArray[np.float32] | None  # (N, K), 0 to 1
    absent: tuple[Group, ...]  # groups for which the table has no column
    used: frozenset[str]  # names of the columns read


def read_concept_labels(
    table: Columns, concepts: ConceptSet, problems: Problems, *, row_certainty: Column | None
) -> ConceptLabels:
    """Find each group's column (or an independent group's yes/no columns) and read its labels.

    Args:
        table: The columns.
        concepts: K concepts in groups.
        problems: Receives cells that are not a value of their group.
        row_certainty: The column with the weight of a whole row, if there is one. A column called like a concept's with
            `_certainty` behind it weighs that one instead.
    """
    labels = no_concepts(len(table), len(concepts))
    certainty = np.ones((len(table), len(concepts)), dtype=np.float32)
    weighed = row_certainty is not None
    if row_certainty is not None:
        certainty *= _weights(row_certainty, table, problems)[:, None]
    absent: list[Group] = []
    used: set[str] = set()
    for group in concepts.groups:
        start = int(group.concepts.start)
        column = table.find(group.column)
        spans = {group.column: group.concepts}
        if column is not None:
            used.add(column.name)
            read = list_labels if group.kind == "independent" else _value_labels
            labels[:, group.concepts] = read(column, group, table, problems)
        elif group.kind == "independent" and (found := _yes_no_columns(table, group, problems)):
            for position, answer in found.items():
                used.add(answer.name)
                spans[answer.name] = slice(start + position, start + position + 1)
                labels[:, start + position] = _answers(answer, table, problems)[answer.codes]
        else:
            absent.append(group)
        for name, span in spans.items():
            weight = table.find(f"{name}_certainty")
            if weight is not None:
                weighed = True
                used.add(weight.name)
                certainty[:, span] = _weights(weight, table, problems)[:, None]
    return ConceptLabels(labels, certainty if weighed else None, tuple(absent), frozenset(used))


def report_misspelled(absent: Sequence[Group], table: Columns, claimed: Collection[str], problems: Problems) -> None:
    """A group without a column, while a column that nothing else reads is called almost like it.

    Args:
        absent: Groups for which the table has no column.
        table: The columns.
        claimed: Names of the columns that are read.
        problems: Receives the groups.
    """
    free = [name for name in table.names if name not in claimed]
    for group in absent:
        for wanted in (group.column, *(group.columns if group.kind == "independent" else ())):
            digits = re.findall(r"\d", wanted)  # `size 1` is not `size 2` misspelled
            name = closest(wanted, [name for name in free if re.findall(r"\d", name) == digits], cutoff=_ALMOST)
            if name is not None:
                problems.add(
                    "error",
                    "misspelled-column",
                    f"{table.source}: there is no column {wanted!r} for the concept group {group.name!r}, but the "
                    f"column {name!r} is called almost like it. Rename that column, correct the concept file, or map "
                    f"it with data.rename.columns: {{{group.name}: {name}}}.",
                )
                break


def _value_labels(column: Column, group: Group, table: Columns, problems: Problems) -> npt.NDArray[np.int8]:
    """Labels (N, values) from a column that names one value of an exclusive group."""
    numbers = {value: position for position, value in enumerate(group.values)}
    rows = no_concepts(len(column.values), len(group.values))
    for code, cell in enumerate(column.values):
        position = match_value(cell, numbers)
        if position is not None:
            rows[code] = 0
            rows[code, position] = 1
        elif not is_missing(cell):
            _report(column, code, cell, f"a value of {group.name!r}", group.values, table, problems)
    return rows[column.codes]


def list_labels(column: Column, group: Group, table: Columns, problems: Problems) -> npt.NDArray[np.int8]:
    """Labels (N, values) from a column that lists what holds, separated by `;`; `none` says that no value does."""
    numbers = {value: position for position, value in enumerate(group.values)}
    rows = no_concepts(len(column.values), len(group.values))
    for code, cell in enumerate(column.values):
        if match_value(cell, numbers) is None:
            if is_missing(cell):
                continue
            if fold(cell) == NONE_OF_THEM:
                rows[code] = 0
                continue
        known = np.zeros(len(group.values), dtype=np.int8)
        for word in filter(None, (piece.strip() for piece in cell.split(LIST_SEPARATOR))):
            position = match_value(word, numbers)
            if position is None:
                _report(column, code, word, f"a value of {group.name!r}", group.values, table, problems)
                known = np.full(len(group.values), UNKNOWN, dtype=np.int8)
                break
            known[position] = 1
        rows[code] = known
    return rows[column.codes]


def _yes_no_columns(table: Columns, group: Group, problems: Problems) -> dict[int, Column]:
    """An independent group's columns by the position of their value; empty if the table has none of them."""
    found = {
        position: column for position, name in enumerate(group.columns) if (column := table.find(name)) is not None
    }
    missing = [name for position, name in enumerate(group.columns) if position not in found]
    if found and missing:
        problems.add(
            "error",
            "missing-concept-column",
            f"{table.source}: {len(found)} of the {len(group.values)} columns of {group.name!r} are there, "
            f"{missing[0]!r} is not. {did_you_mean(missing[0], table.names)} Leave its cells blank if unknown.",
            count=len(missing),
            examples=[repr(name) for name in missing],
        )
    return found


def _answers(column: Column, table: Columns, problems: Problems) -> npt.NDArray[np.int8]:
    """Labels (V,) of a yes/no column's distinct cells."""
    rows = np.full(len(column.values), UNKNOWN, dtype=np.int8)
    for code, cell in enumerate(column.values):
        answer = yes_no(cell)
        if answer is not None:
            rows[code] = answer
        elif not is_missing(cell):
            _report(
                column, code, cell, "a yes or a no (1/0, yes/no, true/false, blank if unknown)", (), table, problems
            )
    return rows


def _weights(column: Column, table: Columns, problems: Problems) -> npt.NDArray[np.float32]:
    """Weights (N,) from 0 to 1; a blank takes nothing away from its label."""
    weights = np.ones(len(column.values), dtype=np.float32)
    for code, cell in enumerate(column.values):
        if is_missing(cell):
            continue
        try:
            weight = float(cell)
        except ValueError:
            weight = -1.0
        if 0 <= weight <= 1:
            weights[code] = weight
        else:
            _report(column, code, cell, "a certainty from 0 to 1", (), table, problems)
    return weights[column.codes]


def _report(
    column: Column, code: int, word: str, expected: str, options: tuple[str, ...], table: Columns, problems: Problems
) -> None:
    rows = table.rows[column.where(code)]
    if not len(rows):
        return  # the cell was in a row that is no longer part of the table
    close = f" {did_you_mean(word, options)}" if options else ""
    problems.add(
        "error",
        "unknown-value",
        f"{table.source}: {numbered_rows(rows.tolist())}, column {column.name!r}: {word!r} is not {expected}.{close}",
        count=len(rows),
    )


def fill_from_classes(
    read: ConceptLabels, by_class: npt.NDArray[np.int8], concepts: ConceptSet
) -> npt.NDArray[np.int8]:
    """Labels (N, K) as read, what the class says for groups without a column, unknown where a group cannot apply."""
    labels = read.labels.copy()
    for group in read.absent:
        labels[:, group.concepts] = by_class[:, group.concepts]
    return concepts.mask_hierarchy(labels)
