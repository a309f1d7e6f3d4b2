"""Bad images, tables, folders, arrays and weights; and data that is odd, but legal."""

import os
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from conceptlens.cli import main
from tests.conftest import Refuse
from tests.own_data import CONCEPTS, OwnData, make_own_data

# --- images


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def truncated(file: Path) -> None:
    Image.open(file).convert("RGB").resize((200, 200)).save(file, "JPEG")
    file.write_bytes(file.read_bytes()[:1000])


def replaced_by_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


IMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated": (truncated, "damaged or cut short"),
    "empty": (lambda file: file.write_bytes(b""), "it is empty"),
    "text": (lambda file: file.write_text("not a picture"), "not an image"),
    "bomb": (lambda file: file.write_bytes(png_header(60_000, 60_000)), "too many"),
    "no pixels": (lambda file: file.write_bytes(png_header(0, 4)), "läsion 3.png"),
    "missing": (lambda file: file.unlink(), "are not there"),
    "folder": (replaced_by_a_folder, "are not there"),
}


@pytest.mark.parametrize("kind", IMAGES)
def test_images(refuse: Refuse, refuse_training: Refuse, mine: OwnData, own_run: Path, kind: str) -> None:
    damage, says = IMAGES[kind]
    damage(mine.image(3))
    check = ("data", "check", mine.table, "--data.class_column", "diagnosis", "--concepts", mine.concepts, "--quiet")
    refuse(*check, says=(says, "läsion 3.png", "to fix before training"))
    found_at_once = kind in ("missing", "folder")
    refuse_training(mine.recipe, says=(says, "läsion 3.png"), begun=not found_at_once)
    if kind != "folder":
        said = refuse("predict", own_run, mine.image(2), mine.image(3), mine.image(4), says="läsion 3.png")
        assert said.count("error:") == 1  # the others are predicted


def test_a_mended_image_lets_a_run_go_on(refuse_training: Refuse, mine: OwnData, tmp_path: Path, own_run: Path) -> None:
    whole = mine.image(3).read_bytes()
    mine.image(3).write_bytes(b"")
    refuse_training(mine.recipe, begun=True)
    mine.image(3).write_bytes(whole)
    assert main(["resume", str(tmp_path / "the run"), "--quiet"]) == 0
    assert (tmp_path / "the run" / "metrics.json").read_bytes() == (own_run / "metrics.json").read_bytes()


def test_predict_takes_no_folder_without_images(refuse: Refuse, own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refuse("predict", own_run, tmp_path / "empty", says="no image in this folder")
    refuse("predict", own_run, tmp_path / "none.png", says="none.png: no such file")


# --- tables


def cell(**cells: str) -> Callable[[OwnData], object]:
    return lambda mine: mine.change(2, **cells)


def two_rows(mine: OwnData) -> None:
    mine.write_rows(mine.rows()[:2])
    mine.drop("split", "group")


TABLES: dict[str, tuple[Callable[[OwnData], object], tuple[str, ...]]] = {
    "misspelled class": (cell(diagnosis="bening"), ("row 4", "'diagnosis'", "'bening'", "Did you mean 'benign'?")),
    "misspelled value": (cell(border="regulr"), ("row 4", "'border'", "Did you mean 'regular'?")),
    "misspelled value in a list": (cell(signs="hair; rulr"), ("'rulr'", "Did you mean 'ruler'?")),
    "misspelled column of a concept group": (
        lambda mine: mine.write_rows([{"boder": row.pop("border"), **row} for row in mine.rows()]),
        ("no column 'border'", "'boder'", "data.rename.columns: {border: boder}"),
    ),
    "misspelled split": (cell(split="trian"), ("row 4", "Did you mean 'train'?")),
    "certainty above 1": (cell(certainty="2"), ("row 4", "a certainty from 0 to 1")),
    "certainty in words": (cell(certainty="high"), ("'high'", "a certainty from 0 to 1")),
    "no image": (cell(image=""), ("without an image",)),
    "an image with a very long name": (cell(image="x" * 4000 + ".png"), ("are not there",)),
    "empty": (lambda mine: mine.table.write_text(""), ("names its columns",)),
    "header only": (lambda mine: mine.table.write_text("image,diagnosis\n"), ("expected rows below the header",)),
    "repeated row": (lambda mine: mine.write_rows([*mine.rows(), mine.rows()[0]]), ("an earlier row", "läsion 0.png")),
    "Latin-1": (lambda mine: mine.write_rows(mine.rows(), encoding="latin-1"), ("expected UTF-8",)),
    "UTF-16": (lambda mine: mine.write_rows(mine.rows(), encoding="utf-16"), ("expected UTF-8",)),
    "bytes": (lambda mine: mine.table.write_bytes(bytes(range(256)) * 9), ("lesions.csv",)),
    "zero bytes": (lambda mine: mine.table.write_bytes(b"image,diagnosis\n\0\0,benign\n"), ("lesions.csv",)),
    "ragged": (lambda mine: mine.table.open("a").write("a,b\n"), ("row 42", "10 cells")),
    "an endless cell": (lambda mine: mine.table.open("a").write("x" * 200_000 + "\n"), ("lesions.csv",)),
    "no training image": (lambda mine: mine.change_all(split="test"), ("split `train`",)),
    "one class": (lambda mine: mine.change_all(diagnosis="benign"), ("one class",)),
    "no class at all": (lambda mine: mine.change_all(diagnosis=""), ("No image has a class",)),
    "one class in training": (
        lambda mine: mine.change_all("train", diagnosis="benign"),
        ("All training images are of one class, benign",),
    ),
    "no class in validation": (lambda mine: mine.change_all("val", diagnosis=""), ("No validation image has a class",)),
    "two rows": (two_rows, ("2 images cannot be divided",)),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables(refuse: Refuse, refuse_training: Refuse, mine: OwnData, kind: str) -> None:
    damage, says = TABLES[kind]
    damage(mine)
    refuse_training(mine.recipe, says=says)
    check = ("data", "check", mine.table, "--data.class_column", "diagnosis", "--concepts", mine.concepts, "--quiet")
    refuse(*check, says=(*says, "to fix before training"))


def test_columns(refuse_training: Refuse, mine: OwnData) -> None:
    refuse_training(mine.recipe, "--data.class_column", "class", says=("no column 'class'", "'diagnosis'"))
    refuse_training(mine.recipe, "--data.class_column", "diagnosi", says="Did you mean 'diagnosis'?")
    refuse_training(mine.recipe, "--data.image_column", "imge", says=("Did you mean 'image'?", "data.image_column"))
    refuse_training(mine.recipe, "--data.group_column", "patient", says=("'patient'", "data.group_column"))
    refuse_training(mine.recipe, "--data.images", mine.root / "none", says="data.images")
    refuse_training(mine.recipe, "--data.classes", "[benign, bengin]", says="Did you mean 'benign'?")
    refuse_training(mine.recipe, "--data.class_column", "grade", "--data.task", "ordinal", says="'benign'")
    mine.drop("diagnosis")
    refuse_training(mine.recipe, "--data.class_column", "class", says="class")


def test_sources(refuse_training: Refuse, mine: OwnData, tmp_path: Path) -> None:
    for source, says in (
        ("shaeps", "Did you mean 'shapes'?"),
        (mine.root / "lesion.csv", "Did you mean 'lesions.csv'?"),
        (tmp_path / "none" / "x.csv", "is not there either"),
        (mine.concepts, "expected a folder, a table"),
        (mine.images, "no folder"),
        ("x" * 3000, "xxx"),
    ):
        refuse_training(mine.recipe, "--data.source", source, says=says)
    broken = mine.root / "lesions.parquet"
    broken.write_bytes(b"PAR1 nonsense")
    refuse_training(mine.recipe, "--data.source", broken, says="not a Parquet file")
    refuse_training(mine.recipe, "--data.source", mine.folders, "--data.task", "multilabel", says="needs a table")
    refuse_training(mine.recipe, "--data.source", mine.table, "--concepts", "null", says="needs a concept file")


def test_names_that_are_not_utf8(refuse: Refuse, refuse_training: Refuse, mine: OwnData, own_run: Path) -> None:
    """As disks of other days have them."""
    folder = os.fsencode(mine.folders / "benign")
    try:
        os.rename(folder + b"/0.png", folder + b"/caf\xe9.png")
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    refuse("data", "check", mine.folders, "--concepts", mine.concepts, "--quiet", says=("not UTF-8", "benign/caf?.png"))
    refuse_training(mine.recipe, "--data.source", mine.folders, says=("not UTF-8", "benign/caf?.png"))
    words = ["predict", str(own_run), str(mine.folders / "benign"), "--out", str(mine.root / "said.json")]
    assert main(words) == 0
    assert "benign/caf?.png" in (mine.root / "said.json").read_text("utf-8")


def test_folders(refuse_training: Refuse, mine: OwnData) -> None:
    (mine.folders / "benign").rename(mine.folders / "bening")
    refuse_training(mine.recipe, "--data.source", mine.folders, says="Did you mean 'benign'?")
    shutil.rmtree(mine.folders / "bening")
    refuse_training(mine.recipe, "--data.source", mine.folders, says="one class")


# --- arrays and weights


@pytest.mark.parametrize(
    ("images", "labels", "says"),
    [
        (np.array([{"a": 1}, None], dtype=object), np.zeros(2, int), "may run code"),
        (np.zeros((9, 8, 8, 3), np.uint8), np.array([None] * 9, dtype=object), "may run code"),
        (np.zeros((9, 8, 8, 3), np.float32), np.zeros(9, int), "of uint8, found (9, 8, 8, 3) of float32"),
        (np.zeros((9, 8, 8, 2), np.uint8), np.zeros(9, int), "found (9, 8, 8, 2)"),
        (np.zeros((9, 8, 8, 3), np.uint8), np.zeros(9), "expected whole numbers"),
        (np.zeros((9, 8, 8, 3), np.uint8), np.zeros(5, int), "shape (9,), found (5,)"),
        (np.zeros((9, 8, 8, 3), np.uint8), np.full(9, -4), "class numbers from 0"),
        (np.zeros((9, 8, 8, 3), np.uint8), None, "side by side"),
    ],
)
def test_arrays(
    refuse_training: Refuse,
    own: OwnData,
    tmp_path: Path,
    images: np.ndarray[tuple[int, ...], np.dtype[np.generic]],
    labels: np.ndarray[tuple[int, ...], np.dtype[np.generic]] | None,
    says: str,
) -> None:
    np.save(tmp_path / "dataList.npy", images, allow_pickle=True)
    if labels is not None:
        np.save(tmp_path / "labelList.npy", labels, allow_pickle=True)
    refuse_training(own.recipe, "--data.source", tmp_path, says=says)


def test_a_torn_array(refuse_training: Refuse, own: OwnData, tmp_path: Path) -> None:
    np.save(tmp_path / "labelList.npy", np.zeros(9, int))
    np.save(tmp_path / "dataList.npy", np.zeros((9, 8, 8, 3), np.uint8))
    whole = (tmp_path / "dataList.npy").read_bytes()
    for torn in (whole[:500], whole[:20], b""):
        (tmp_path / "dataList.npy").write_bytes(torn)
        refuse_training(own.recipe, "--data.source", tmp_path, says="not a whole .npy file")


def test_weights(refuse_training: Refuse, own: OwnData, tmp_path: Path) -> None:
    (tmp_path / "w.pth").write_bytes(b"\x80\x04")
    (tmp_path / "torn.safetensors").write_bytes(b"garbage")
    save_file({"x": torch.zeros(3)}, tmp_path / "other.safetensors")
    for name, says in (
        ("w.pth", ("never loaded", "safetensors")),
        ("torn.safetensors", ("safetensors format",)),
        ("other.safetensors", ("does not fit", "encoder.options")),
        ("none.safetensors", ("nothing there",)),
        (".", ("found a folder",)),
    ):
        refuse_training(own.recipe, "--encoder.weights", tmp_path / name, says=says)
    bare = tmp_path / "bare.yaml"
    bare.write_text(own.recipe.read_text("utf-8").replace(", options: {width: 32, depth: 1, heads: 2}", ""), "utf-8")
    resnet = ("--encoder.name", "timm/resnet10t", "--encoder.weights", tmp_path / "other.safetensors")
    refuse_training(bare, *resnet, says=("does not fit", "timm/resnet10t"))


# --- odd, but legal


def settings_only(mine: OwnData) -> None:
    """The data stays as it is."""


def one_image_of_a_class(mine: OwnData) -> None:
    mine.change_all(diagnosis="benign")
    mine.change(0, diagnosis="malignant")


def a_group_never_labeled(mine: OwnData) -> None:
    mine.concepts.write_text(CONCEPTS.partition("by_class")[0])
    mine.change_all(border="")


def images_of_one_pixel(mine: OwnData) -> None:
    for number in range(40):
        Image.new("RGB", (1, 1), (6 * number, 0, 0)).save(mine.image(number))


def a_semicolon_and_a_byte_order_mark(mine: OwnData) -> None:
    lines = [f"{row['image']};{row['diagnosis']};{row['border']}" for row in mine.rows()]
    mine.table.write_text("\n".join(["image;diagnosis;border", *lines]), encoding="utf-8-sig")


def sections_without_a_word(mine: OwnData) -> None:
    recipe = mine.recipe.read_text("utf-8").replace("method: ivq-cbm", "method:")
    mine.recipe.write_text(recipe + "regularizer:\nseed:\nout:\n", "utf-8")


LEGAL: dict[str, tuple[Callable[[OwnData], None], list[str]]] = {
    "an image size that no patch divides": (settings_only, ["--encoder.image_size", "37"]),
    "a batch larger than the data": (settings_only, ["--training.batch_size", "4096"]),
    "a class with one image": (one_image_of_a_class, []),
    "a group never labeled": (a_group_never_labeled, []),
    "a group never labeled, by group": (a_group_never_labeled, ["--training.loss.concept", "group"]),
    "no validation split": (lambda mine: mine.change_all("val", split="train"), []),
    "no test labels": (lambda mine: mine.change_all("test", diagnosis=""), []),
    "images of one pixel": (images_of_one_pixel, []),
    "a path out of the folder": (
        lambda mine: mine.change(0, image=f"../{mine.root.name}/{mine.image(0).relative_to(mine.root)}"),
        [],
    ),
    "sections without a word": (sections_without_a_word, []),
    "a semicolon and a byte order mark": (a_semicolon_and_a_byte_order_mark, []),
}


@pytest.mark.parametrize("kind", LEGAL)
def test_odd_but_legal(mine: OwnData, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    prepare, settings = LEGAL[kind]
    prepare(mine)
    run = tmp_path / "run"
    code = main(["train", str(mine.recipe), "--out", str(run), "--quiet", "--training.epochs", "1", *settings])
    assert code == 0, capsys.readouterr().err
    if prepare is not settings_only:
        assert main(["evaluate", str(run)]) == main(["predict", str(run), str(mine.image(1))]) == 0


def test_one_concept_alone(mine: OwnData, tmp_path: Path) -> None:
    """K = 1: one slot, one code, nothing to calibrate."""
    mine.concepts.write_text("groups: {signs: {kind: independent, values: [hair]}}")
    mine.write_rows([{**row, "signs": ("hair", "none")[number % 2]} for number, row in enumerate(mine.rows())])
    for number, settings in enumerate((["--method.slots", "group"], ["--method", "ivq-cbm-released"], [])):
        out = str(tmp_path / f"run {number}")
        assert main(["train", str(mine.recipe), "--out", out, "--quiet", "--training.epochs", "1", *settings]) == 0


def test_names_are_never_paths(tmp_path: Path) -> None:
    """Classes, groups and values called like a way out of the folder leave no file outside the run."""
    mine = make_own_data(tmp_path / "data")
    wild = "../../escaped"
    text = mine.concepts.read_text("utf-8").replace("benign", f'"{wild}"').replace("ruler:", f'"{wild}":')
    mine.concepts.write_text(text, "utf-8")
    mine.write_rows(
        [
            {**row, "diagnosis": row["diagnosis"].replace("benign", wild), "signs": row["signs"].replace("ruler", wild)}
            for row in mine.rows()
        ]
    )
    before = {str(path) for path in tmp_path.rglob("*")}
    assert main(["train", str(mine.recipe), "--out", str(tmp_path / "a" / "b" / "run"), "--quiet"]) == 0
    run = tmp_path / "a" / "b" / "run"
    assert main(["evaluate", str(run)]) == main(["report", str(run)]) == 0
    made = {str(path) for path in tmp_path.rglob("*")} - before - {str(tmp_path / "a"), str(tmp_path / "a" / "b")}
    assert all(path.startswith(str(run)) for path in made)


def test_very_long_names(tmp_path: Path) -> None:
    mine = make_own_data(tmp_path / "data")
    long = "a very long name " * 40
    text = mine.concepts.read_text("utf-8").replace("benign", f'"{long.strip()}"').replace("border:", f'"{long}":', 1)
    mine.concepts.write_text(text.partition("by_class")[0], "utf-8")
    mine.write_rows([{**row, "diagnosis": row["diagnosis"].replace("benign", long)} for row in mine.rows()])
    assert main(["train", str(mine.recipe), "--out", str(tmp_path / "run"), "--quiet"]) == 0
