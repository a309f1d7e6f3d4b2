import io
from pathlib import Path

import pytest

from conceptlens.core.errors import UserError
from conceptlens.data.checks.findings import Problems
from conceptlens.data.labels.columns import Columns, read_columns, read_csv
from conceptlens.data.labels.words import fold, is_missing, match_value


def parse(text: str | bytes, problems: Problems | None = None) -> Columns:
    data = text.encode() if isinstance(text, str) else text
    return read_csv(io.BytesIO(data), "t.csv", problems or Problems(), expect="image")


def cells(table: Columns) -> dict[str, tuple[str, ...]]:
    return {column.name: column.texts() for column in table.columns}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_separators_and_byte_order_mark(delimiter: str) -> None:
    text = delimiter.join(["Image", "note"]) + "\r\n" + delimiter.join([" a.jpg ", '"x,y;z"']) + "\r\n\r\n"
    table = parse(b"\xef\xbb\xbf" + text.encode())
    assert cells(table) == {"Image": ("a.jpg",), "note": ("x,y;z",)}
    assert table.rows.tolist() == [2]


def test_a_comma_in_the_first_header_does_not_mislead() -> None:
    assert parse('image;"a,b,c,d"\n1.jpg;x\n').names == ["image", "a,b,c,d"]


def test_rows_are_numbered_as_in_a_spreadsheet() -> None:
    table = parse("image,x\na,1\n\nb,2\n,\nc,3,,\n")
    assert cells(table)["image"] == ("a", "b", "c")
    assert table.rows.tolist() == [2, 4, 6]


def test_long_tables_keep_each_text_once() -> None:
    table = parse("image,kind\n" + "".join(f"{i}.jpg,{'ab'[i % 2]}\n" for i in range(20_000)))
    kind = table.find("kind")
    assert kind is not None
    assert kind.values == ("a", "b")
    assert kind.texts()[:3] == ("a", "b", "a")
    assert table.find("image").texts()[19_999] == "19999.jpg"  # type: ignore[union-attr]


def test_ragged_rows() -> None:
    text = "image,x\na,1\nb\nc,1,2\nd,4\n"
    with pytest.raises(UserError, match="row 3"):
        parse(text)
    problems = Problems(strict=False)
    assert cells(parse(text, problems))["image"] == ("a", "d")
    assert [(finding.code, finding.count) for finding in problems.findings] == [("ragged-table", 2)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names its columns"),
        ("image,x,x\n", "'x' is there 2 times"),
        ("image\nü\n".encode("latin-1"), "UTF-8"),
        ("image,x\na,1\n".encode("utf-16"), "UTF-8"),
        ("image\n" + "a" * 200_000 + "\n", "field larger"),
    ],
)
def test_tables_that_cannot_be_read(text: str | bytes, words: str) -> None:
    with pytest.raises(UserError, match=words):
        parse(text)


def test_columns_are_found_forgivingly_but_never_by_chance() -> None:
    table = parse("image,Granule type,cell_size,Cell Size\na,b,c,d\n")
    assert table.find("granule_type").name == "Granule type"  # type: ignore[union-attr]
    assert table.find("cell_size").name == "cell_size"  # type: ignore[union-attr]
    assert table.find("colour") is None
    with pytest.raises(UserError, match="could be any of 'cell_size', 'Cell Size'"):
        table.find("CELL SIZE")


def test_parquet_reads_as_the_same_table(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    columns = {
        "image": ["a", "b", None],
        "grade": [1.0, None, 3.0],
        "sure": [0.5, 1.0, None],
        "yes": [True, False, None],
        "signs": [["spots", "stripes"], [], None],
        "raw": [b"1", b"2", b"3"],
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = read_columns(tmp_path / "t.parquet", Problems(), expect="image")
    assert cells(table) == {
        "image": ("a", "b", ""),
        "grade": ("1", "", "3"),
        "sure": ("0.5", "1", ""),
        "yes": ("true", "false", ""),
        "signs": ("spots;stripes", "", ""),
    }


def test_parquet_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(UserError, match=r"t\.parquet: not a Parquet file"):
        read_columns(tmp_path / "t.parquet", Problems(), expect="image")
    with pytest.raises(UserError, match="no such file"):
        read_columns(tmp_path / "u.parquet", Problems(), expect="image")
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    bounds = pa.py_buffer(b"\0\0\0\0\1\0\0\0")
    words = pa.StringArray.from_buffers(1, bounds, pa.py_buffer(b"\xff"))
    pq.write_table(pa.table({"image": words}), tmp_path / "v.parquet")
    with pytest.raises(UserError, match=r"v\.parquet: not a Parquet file"):
        read_columns(tmp_path / "v.parquet", Problems(), expect="image")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"pip install conceptlens\[parquet\]"):
        read_columns(tmp_path / "t.parquet", Problems(), expect="image")


def test_words() -> None:
    assert fold(" Light_blue-ish ") == "light blue ish"
    assert [is_missing(word) for word in ("", "NA", "NaN", "?", "Unknown", "nil", "none", "0")] == [True] * 5 + [
        False
    ] * 3
    values = {"light blue": 0, "Blue": 1, "blue": 2}
    assert match_value("Light_Blue", values) == 0
    assert match_value("blue", values) == 2
    assert match_value("BLUE", values) is None  # could be either
    assert match_value("TRUE", {"yes": 0, "no": 1}) == 0
    assert match_value("0", {"yes": 0, "no": 1}) == 1
    assert match_value("3.0", {"3": 5}) == 5


def test_an_excel_sheet(tmp_path: Path) -> None:
    """The first sheet, values as shown, blank cells and rows beyond the header's width left out."""
    from datetime import datetime

    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (
        ["image", "class", "age", "seen"],
        ["a", "x", 61, datetime(2024, 5, 2)],
        [None] * 4,
        ["b", None, 2.5, True],
    ):
        sheet.append(row)
    sheet["F9"] = " "
    book.save(tmp_path / "t.xlsx")
    table = read_columns(tmp_path / "t.xlsx", Problems(), expect="image")
    assert {column.name: column.texts() for column in table.columns} == {
        "image": ("a", "b"),
        "class": ("x", ""),
        "age": ("61", "2.5"),
        "seen": ("2024-05-02", "true"),
    }
    assert table.rows.tolist() == [2, 4]
    (tmp_path / "bad.xlsx").write_bytes(b"no zip")
    with pytest.raises(UserError, match="not an Excel file"):
        read_columns(tmp_path / "bad.xlsx", Problems(), expect="image")


def test_excel_without_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(UserError, match=r"conceptlens\[excel\]"):
        read_columns(tmp_path / "t.xlsx", Problems(), expect="image")


def test_the_sheet_with_the_expected_column(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["Patient", "Age", "Age"], ["P1", 60, 60]):  # its repeated column is of no interest
        book.active.append(row)
    sheet = book.create_sheet("Images")
    for row in (["File name", "Patient"], ["a", "P1"]):
        sheet.append(row)
    book.save(tmp_path / "t.xlsx")
    assert read_columns(tmp_path / "t.xlsx", Problems(), expect="file_name").names == ["File name", "Patient"]
    with pytest.raises(UserError, match="'Age' is there 2 times"):
        read_columns(tmp_path / "t.xlsx", Problems(), expect="image")  # no sheet has it: the first is read
