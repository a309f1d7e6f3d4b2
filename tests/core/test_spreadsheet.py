"""Cells that a spreadsheet would compute are words in it, and come back as they were."""

import csv
import io

import pytest

from conceptlens.core.spreadsheet import csv_text, read_cell, safe_cell


@pytest.mark.parametrize(
    "word",
    [
        "=1+1",
        "+1-800",
        "-x",
        "@SUM(A1)",
        "\tx",
        "\r1",
        "\n1",
        "\x00",
        "'=1",
        "''=1",
        "=cmd|' /C calc'!A0",
        "-0.5.1",
        "--1",
    ],
)
def test_a_formula_is_quoted_and_comes_back(word: str) -> None:
    assert safe_cell(word) == f"'{word}"
    assert read_cell(safe_cell(word)) == word


@pytest.mark.parametrize(
    ("word", "cell"),
    [
        ("a;=1+1", "a;'=1+1"),
        ("a; @SUM(A1);-x", "a; '@SUM(A1);'-x"),
        ("a\n=1", "a\n'=1"),
        (";=1", ";'=1"),
        ("\t=1", "'\t'=1"),
        ("a;'=1", "a;''=1"),
        ("0.5;-0.25", "0.5;-0.25"),
        ("a;b=c", "a;b=c"),
    ],
)
def test_where_semicolons_begin_cells_no_formula_begins(word: str, cell: str) -> None:
    assert safe_cell(word) == cell
    assert read_cell(cell) == word


@pytest.mark.parametrize(
    "word", ["", "cell", "-0.5", "+3", "-1e-05", "-.5", "a=b", "'", "'tis", "läsion 1.png", "2026-01-01"]
)
def test_other_cells_stay(word: str) -> None:
    assert safe_cell(word) == word
    assert read_cell(word) == word


def test_numbers_stay_numbers() -> None:
    assert csv_text([["image", "score"], ["=a,b", -0.5], [None, -3]]) == 'image,score\n"\'=a,b",-0.5\n,-3\n'
    rows = [["=1", 'a "b"', "c\nd"], ["-", "+", "@"], ["a\rb", "=1", "\r"]]
    assert [[read_cell(cell) for cell in row] for row in csv.reader(io.StringIO(csv_text(rows), newline=""))] == rows
