"""Columns that are called almost like a concept group: an error where the group would have no labels, else nothing."""

import io

import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.checks.findings import Problems
from conceptlens.data.labels.columns import read_csv
from conceptlens.data.labels.rows import examples_of
from conceptlens.recipes.schema import DataConfig

ROW = {
    "image": "a.png",
    "class": "Neutrophil",
    "granule_type": "small",
    "vacuole": "yes",
    "spots": "1",
    "has_stripes": "0",
}


def read(concepts: ConceptSet, header: dict[str, str], problems: Problems) -> dict[str, tuple[str, ...]]:
    """Metadata of a table whose columns are renamed."""
    text = ",".join(header.get(name, name) for name in ROW) + "\n" + ",".join(ROW.values()) + "\n"
    table = read_csv(io.BytesIO(text.encode()), "cells.csv", problems, expect="image")
    return dict(examples_of(table, ("a.png",), DataConfig("cells.csv"), concepts, problems)[1].metadata)


@pytest.mark.parametrize(
    ("wanted", "column", "group"),
    [
        ("granule_type", "granul type", "granule type"),
        ("granule_type", "granule types", "granule type"),
        ("vacuole", "vacoule", "vacuole"),
        ("vacuole", "Vacuoles", "vacuole"),
    ],
)
def test_almost_right_is_an_error(cells: ConceptSet, wanted: str, column: str, group: str) -> None:
    with pytest.raises(UserError) as error:
        read(cells, {wanted: column}, Problems())
    assert f"no column {wanted!r} for the concept group {group!r}, but the column {column!r}" in str(error.value)
    assert f"data.rename.columns: {{{group}: {column}}}" in str(error.value)


def test_yes_no_columns_of_a_group(cells: ConceptSet) -> None:
    problems = Problems(strict=False)
    read(cells, {"spots": "spot", "has_stripes": "pixels"}, problems)
    assert [finding.code for finding in problems.findings] == ["misspelled-column"]


@pytest.mark.parametrize(
    "header",
    [
        {},
        {"vacuole": "vacuum"},  # not close enough
        {"vacuole": "nucleus"},
        {"granule_type": "granule size"},
    ],
)
def test_other_columns_are_metadata(cells: ConceptSet, header: dict[str, str]) -> None:
    problems = Problems(strict=False)
    metadata = read(cells, header, problems)
    assert not problems.findings
    assert set(metadata) == set(header.values())


def test_numbers_are_no_misspellings() -> None:
    concepts = ConceptSet.from_yaml("groups: {cell size 1: {values: [big, small]}}")
    table = read_csv(io.BytesIO(b"image,class,cell size 2\na.png,x,big\n"), "cells.csv", Problems(), expect="image")
    examples = examples_of(table, ("a.png",), DataConfig("cells.csv"), concepts, Problems())[1]
    assert set(examples.metadata) == {"cell size 2"}
