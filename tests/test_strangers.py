"""What a stranger's data may hold: names that would be keys of a recipe, tables without an end, paths that lead out."""

import gzip
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.core.files import parse_yaml, read_json, read_yaml, write_json
from conceptlens.core.plugins import check_code
from conceptlens.core.spreadsheet import read_cell, safe_cell
from conceptlens.data.checks.findings import Problems
from conceptlens.data.labels.columns import read_columns
from conceptlens.data.sources import shard_files
from conceptlens.data.sources.hf import HuggingFace
from conceptlens.data.sources.npy import NpyPair
from conceptlens.encoders.weights_file import read_weights
from conceptlens.recipes.schema import DataConfig
from conceptlens.workflows.init.init import init_folder
from conceptlens.workflows.label.log import RaterLog, all_raters
from conceptlens.workflows.regions.detections import parse_detection, read_detections
from conceptlens.workflows.regions.segment import write_segments
from tests.test_odd_readers import tar
from tests.workflows.init.test_init import images, table

CLASSES = ConceptSet.from_yaml("classes: [a, b]\ngroups:\n  size: {values: [big, small]}\n")
needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")


@pytest.mark.parametrize("place", ["value", "file", "folder"])
def test_no_name_becomes_a_key_of_the_recipe(tmp_path: Path, place: str) -> None:
    """`init` says in comments what it assumed. A line break in a name there would begin a line of the recipe, and a
    regularizer may be code."""
    evil = "x\nregularizer: evil.py:Evil\n#"
    root = tmp_path / (evil if place == "folder" else "data")
    images(root, 16)
    values = ("red", evil if place == "value" else "blue")
    table(root / "t.csv", [{"image": f"{n}.png", "class": "ab"[n % 2], "hue": values[n // 2 % 2]} for n in range(16)])
    if place == "file":
        (root / f"{evil}.csv").write_text("a,b\n1,2\n")
    init_folder(root, out=tmp_path / "out")
    text = (tmp_path / "out" / "recipe.yaml").read_text("utf-8")
    assert "regularizer: evil.py:Evil" in text  # it was said
    assert "regularizer" not in read_yaml(tmp_path / "out" / "recipe.yaml")


def workbook(path: Path, rows: str, head: str = "") -> Path:
    """An Excel file of a sheet that no spreadsheet would write."""
    openpyxl = pytest.importorskip("openpyxl")
    openpyxl.Workbook().save(path)
    with zipfile.ZipFile(path) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    sheet = f"<worksheet {space}>{head}<sheetData>{rows}</sheetData></worksheet>".encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name, data in parts.items():
            new.writestr(name, sheet if name == "xl/worksheets/sheet1.xml" else data)
    return path


def row(number: int | str, *cells: str) -> str:
    texts = "".join(f'<c t="inlineStr"><is><t>{cell}</t></is></c>' for cell in cells)
    return f'<row r="{number}">{texts}</row>'


HEAD = row(1, "image", "class")


@pytest.mark.parametrize(
    ("rows", "head"),
    [
        (HEAD + row(9_000_000_000, "x", "a"), ""),
        (HEAD + row("9" * 5000, "x", "a"), ""),
        (HEAD + "<row", ""),
        (HEAD + row("x", "y"), ""),
    ],
    ids=["endless", "digits", "torn", "word"],
)
def test_a_sheet_without_an_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: str, head: str
) -> None:
    monkeypatch.setattr("conceptlens.data.labels.columns.EXCEL_ROWS", 10_000)
    with pytest.raises(UserError, match=r"t\.xlsx"):
        read_columns(workbook(tmp_path / "t.xlsx", rows, head), Problems(), expect="image")


def test_a_sheet_as_wide_and_long_as_anyone_ever_typed_is_read(tmp_path: Path) -> None:
    """Someone once typed in its last cell: a million rows of sixteen thousand cells are not gone through."""
    rows = HEAD + row(2, "x.png", "a") + '<row r="100000"><c r="XFD100000"><v>1</v></c></row>'
    file = workbook(tmp_path / "t.xlsx", rows, '<dimension ref="A1:XFD1048576"/>')
    found = read_columns(file, Problems(), expect="image")
    assert (found.names, len(found)) == (["image", "class"], 1)


def test_a_workbook_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conceptlens.data.labels.columns.MOST_UNPACKED", 10_000)
    file = workbook(tmp_path / "t.xlsx", HEAD + row(2, "x" * 20_000, "a"))
    with pytest.raises(UserError, match="unpack"):
        read_columns(file, Problems(), expect="image")


@needs_pipes
def test_logs_of_raters_are_tables_of_ours(tmp_path: Path) -> None:
    """The folder `labels` may be the data's own."""
    RaterLog(tmp_path, "ann").add("0.png", {"border": "sharp"})
    (tmp_path / "notes of last year.csv").write_text("a,b\n1,2\n")
    assert all_raters(tmp_path) == {"ann": {("0.png", "border"): "sharp"}}
    (tmp_path / "bob.csv").write_bytes(b"\xff\xfe,a,b,c\n")
    with pytest.raises(UserError, match=r"bob\.csv"):
        all_raters(tmp_path)
    (tmp_path / "bob.csv").write_text(f"{'x' * 200_000},a,b,c\n")
    with pytest.raises(UserError, match=r"bob\.csv"):
        all_raters(tmp_path)
    (tmp_path / "bob.csv").unlink()
    os.mkfifo(tmp_path / "bob.csv")
    with pytest.raises(UserError, match="pipe"):
        all_raters(tmp_path)


@needs_pipes
@pytest.mark.parametrize(
    "state", ["[]", '{"_data_files": [1]}', '{"_data_files": [{}]}', '{"_data_files": [{"filename": "pipe"}]}']
)
def test_a_damaged_description_of_hugging_face_data(tmp_path: Path, state: str) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "dataset_info.json").write_text('{"features": {"image": {"_type": "Image"}}}')
    (tmp_path / "state.json").write_text(state)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError):
        HuggingFace(tmp_path, DataConfig(str(tmp_path)), CLASSES)
    (tmp_path / "dataset_dict.json").write_text("[]")
    with pytest.raises(UserError):
        HuggingFace(tmp_path, DataConfig(str(tmp_path)), CLASSES)


def test_labels_of_no_classes(tmp_path: Path) -> None:
    np.save(tmp_path / "dataList.npy", np.zeros((3, 4, 4, 3), np.uint8))
    np.save(tmp_path / "labelList.npy", np.zeros((3, 0), np.int64))
    with pytest.raises(UserError, match="labelList"):
        NpyPair(tmp_path, DataConfig(str(tmp_path), task="multilabel"), CLASSES)


def test_lists_within_lists_are_no_label_of_a_shard(tmp_path: Path) -> None:
    from conceptlens.data.sources.shards import Shards

    config = tar(tmp_path / "s.tar", a__png=b"x", a__json=b'{"class": ' + b"[" * 900 + b"]" * 900 + b"}")
    with pytest.raises(UserError, match=r"s\.tar"):
        Shards(config, None)


def test_a_range_of_more_digits_than_numbers_have() -> None:
    with pytest.raises(UserError):
        shard_files.expand(f"s-{{0..{'9' * 5000}}}.tar")


def test_a_row_group_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from conceptlens.data.sources.shards import Shards

    monkeypatch.setattr("conceptlens.data.sources.shards.LARGEST", 10_000)
    pq.write_table(pa.table({"image": [b"0" * 20_000], "class": ["a"]}), tmp_path / "s.parquet", compression="zstd")
    with pytest.raises(UserError, match="unpack"):
        Shards(DataConfig(str(tmp_path / "s*.parquet")), CLASSES).encoded(0)


@pytest.mark.parametrize("corner", ["NaN", "Infinity", "-Infinity"])
def test_boxes_are_of_numbers(corner: str) -> None:
    for score, edge in ((1, corner), (corner, 1)):
        entry: Any = json.loads(f'{{"label": "a", "score": {score}, "box": [0, 0, {edge}, 1]}}')
        with pytest.raises(UserError, match="four numbers"):
            parse_detection(entry, "x.json")


def test_a_number_that_is_none_names_no_row(tmp_path: Path) -> None:
    for name in ("²", "9" * 5000):
        (tmp_path / "d.json").write_text(json.dumps({name: [], "0": []}), "utf-8")
        assert list(read_detections(tmp_path / "d.json", ["a.png"])) == [0]


def test_segments_stay_in_their_folder(tmp_path: Path) -> None:
    """Names of images are those of a table, which may lead anywhere."""

    class Source:
        class examples:
            ids = ("../../up.png", str(tmp_path / "absolute.png"), "sub/in.png")

        def read(self, index: int) -> Image.Image:
            return Image.new("RGB", (4, 4))

    half = np.arange(16).reshape(4, 4) < 8
    sizes: dict[str, Any] = {"most": 2, "smallest": 0.1, "largest": 0.9}
    for rows in ([0], [1]):
        with pytest.raises(UserError, match="leads out"):
            write_segments(Source(), lambda image: [half], tmp_path / "out", rows=rows, **sizes)  # type: ignore[arg-type]
    write_segments(Source(), lambda image: [half], tmp_path / "out", rows=[2], **sizes)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.rglob("*.png")] == ["in-1.png"]


@needs_pipes
def test_who_wrote_a_newer_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text('{"schema": 99}')
    os.mkfifo(tmp_path / "environment.json")
    with pytest.raises(UserError, match="schema 99"):
        read_json(tmp_path / "metrics.json")


@pytest.mark.parametrize("sign", "＝＋－＠")
def test_wide_signs_begin_formulas_as_well(sign: str) -> None:
    """Spreadsheets in Japanese and Chinese take them for the plain ones."""
    word = f"{sign}1+1"
    assert safe_cell(word) == f"'{word}"
    assert read_cell(safe_cell(word)) == word


@pytest.mark.parametrize("address", ["reference://a.tar::{}", "simplecache::Reference://a.tar::{}", "dask://a.tar"])
def test_addresses_whose_files_are_programs_are_refused(tmp_path: Path, address: str) -> None:
    """Templates of a reference file ran as code in fsspec before it bounded them."""
    trap = "{{ cycler.__init__.__globals__.os.system('true') }}"
    gen = [{"key": trap, "url": "a", "dimensions": {"i": [0]}}]
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": {"a.tar": "abc"}, "gen": gen}))
    with pytest.raises(UserError, match="can run code"):
        shard_files.stamp(address.format(tmp_path / "refs.json"))


def test_packed_weights_that_unpack_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("conceptlens.core.files.LARGEST", 1000)
    file = tmp_path / "weights.safetensors.gz"
    file.write_bytes(gzip.compress(bytes(10_000)))
    with pytest.raises(UserError, match="more than 1,000 bytes are too many"):
        read_weights(file)
    file.write_bytes(gzip.compress(bytes(10_000))[:12] + b"x" * 40)
    with pytest.raises(UserError, match="safetensors format"):
        read_weights(file)


def test_a_giant_in_the_place_of_a_manifest_or_of_code_is_not_read(tmp_path: Path) -> None:
    """A sparse file of a terabyte costs whoever sends it nothing."""
    for name in (manifest.NAME, "code.py"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(2**40)
    with pytest.raises(UserError, match="too many for a manifest"):
        manifest.check(tmp_path / "run.json")
    (tmp_path / manifest.NAME).unlink()
    code = [{"name": "a.b:C", "path": str(tmp_path / "code.py"), "sha256": "0"}]
    write_json(tmp_path / "run.json", {"code": code})
    with pytest.raises(UserError, match="HAS CHANGED"):
        check_code(["a.b:C"], tmp_path)


def test_answers_of_a_rater_are_not_written_through_a_link(tmp_path: Path) -> None:
    """Names of images are in each line: a link to a file that a shell reads would have let them be commands."""
    (tmp_path / "own.txt").write_text("mine")
    (tmp_path / "labels").mkdir()
    (tmp_path / "labels" / "ann.csv").symlink_to(tmp_path / "own.txt")
    with pytest.raises(UserError, match="a link"):
        RaterLog(tmp_path / "labels", "ann").add("0.png", {"border": "sharp"})
    assert (tmp_path / "own.txt").read_text() == "mine"


def test_half_of_a_character_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    for text in (r'{"a": "\ud800"}', r'{"\udFFFa": 1}'):
        file.write_text(text)
        with pytest.raises(UserError, match="surrogates"):
            read_json(file)
    file.write_text(r'["\ud83d\ude00", "\\ud800"]')  # two halves, and a backslash
    assert read_json(file) == ["\U0001f600", r"\ud800"]
    with pytest.raises(UserError, match="surrogates"):
        parse_yaml(r'"\ud800"', where="a.yaml")
