"""Measuring a run: on its own images as training did, on other people's data under their own names."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from tests.own_data import OwnData, make_own_data


def numbers(evaluation: object) -> dict[str, object]:
    metrics = dict(getattr(evaluation, "metrics"))  # noqa: B009
    return {key: value for key, value in metrics.items() if key in ("class", "concept", "rank", "codebook", "slots")}


def test_the_test_images_give_what_the_run_measured(own_run: Path) -> None:
    stored = read_json(own_run / "metrics.json")["splits"]
    for split in ("val", "test"):
        stored[split].pop("black_box", None)  # of the encoder, not of the run's predictions: measured once
        again = cl.evaluate(own_run, split=split)
        assert again.metrics == stored[split]
        assert again.written_to == own_run / "evaluation" / f"lesions-{split}.json"
        assert read_json(again.written_to)["splits"] == {split: stored[split]}


def test_all_is_the_three_sides_together(own_run: Path, tmp_path: Path) -> None:
    sides = {
        split: cl.evaluate(own_run, split=split, out=tmp_path / f"{split}.json").metrics
        for split in ("train", "val", "test", "all")
    }
    assert [sides[split]["class"]["n"] for split in sides] == [24, 8, 8, 40]
    confusion = np.sum([sides[split]["class"]["confusion"] for split in ("train", "val", "test")], axis=0)
    assert confusion.tolist() == sides["all"]["class"]["confusion"]


def test_the_text_a_person_reads(own_run: Path, tmp_path: Path) -> None:
    result = cl.evaluate(own_run, split="val", out=tmp_path / "val.json")
    first = result.text().splitlines()[0]
    assert first == "run on lesions (val)"
    assert result.written_text() == f"written to {tmp_path / 'val.json'}"
    assert f"class accuracy{result.metrics['class']['accuracy']:24.3f}" in result.text()


def test_the_same_data_as_other_data(own: OwnData, own_run: Path, tmp_path: Path) -> None:
    """Also the given split of other data can be asked for; the ceiling needs training images and is left out."""
    mine = cl.evaluate(own_run, split="test", out=tmp_path / "a.json")
    same = {"source": str(own.table), "class_column": "diagnosis"}
    theirs = cl.evaluate(own_run, data=same, split="test", out=tmp_path / "b.json")
    assert numbers(mine) == numbers(theirs)
    assert "ceiling" in mine.metrics
    assert "ceiling" not in theirs.metrics
    everything = cl.evaluate(own_run, data=same, out=tmp_path / "c.json")
    assert (everything.split, everything.metrics["class"]["n"]) == ("all", 40)


@pytest.fixture
def theirs(tmp_path: Path) -> OwnData:
    """The same images in another hospital: other words for classes, columns and values, and a class we do not know."""
    data = make_own_data(tmp_path / "their data")
    words = {"benign": "Nevus", "malignant": "Melanoma", "regular": "smooth", "irregular": "jagged"}
    rows = []
    for row in data.rows():
        rows.append(
            {
                "file": Path(row["image"]).name,
                "dx": words[row["diagnosis"]],
                "outline": words[row["border"]],
                "seen": row["signs"].replace("hair", "Haar").replace("ruler", "Lineal"),
            }
        )
    rows.append({"file": Path(data.rows()[0]["image"]).name, "dx": "wart", "outline": "smooth", "seen": ""})
    rows[-1]["file"] = "extra.png"
    shutil.copy(data.image(0), data.images / "extra.png")
    data.write_rows(rows)
    return data


def their_settings(theirs: OwnData) -> dict[str, object]:
    return {
        "source": str(theirs.table),
        "images": str(theirs.images),
        "image_column": "file",
        "class_column": "dx",
        "rename": {
            "classes": {"nevus": "benign", "Melanoma": "malignant", "wart": None},
            "columns": {"border": "outline", "signs": "seen"},
            "values": {
                "border": {"smooth": "regular", "Jagged": "irregular"},
                "signs": {"Haar": "hair", "Lineal": "ruler"},
            },
        },
    }


def test_external_validation_under_other_names(own: OwnData, own_run: Path, theirs: OwnData, tmp_path: Path) -> None:
    same = {"source": str(own.table), "class_column": "diagnosis"}
    expected = cl.evaluate(own_run, data=same, out=tmp_path / "expected.json")
    result = cl.evaluate(own_run, data=their_settings(theirs), out=tmp_path / "found.json")
    assert numbers(result) == numbers(expected)
    assert result.metrics["class"]["n"] == 40  # the wart is left out
    assert read_json(tmp_path / "found.json")["data"] == "lesions"


def test_external_validation_on_the_command_line(
    own_run: Path, theirs: OwnData, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from conceptlens.cli import main

    words = ["evaluate", str(own_run), "--data", str(theirs.table), "--data.images", str(theirs.images)]
    words += ["--data.image_column", "file", "--data.class_column=dx"]
    words += ["--data.rename.classes", "{nevus: benign, melanoma: malignant, wart: null}"]
    words += ["--data.rename.columns", "{border: outline, signs: seen}"]
    words += ["--data.rename.values.border", "{smooth: regular, jagged: irregular}"]
    words += ["--data.rename.values.signs", "{haar: hair, lineal: ruler}", "--out", str(tmp_path / "out.json")]
    assert main(words) == 0, capsys.readouterr().err
    by_call = cl.evaluate(own_run, data=their_settings(theirs), out=tmp_path / "call.json")
    assert read_json(tmp_path / "out.json") == read_json(tmp_path / "call.json")
    assert by_call.text().splitlines() == capsys.readouterr().out.splitlines()[:-1]


def test_external_classes_called_by_numbers(own: OwnData, own_run: Path, tmp_path: Path) -> None:
    """In YAML, {0: benign} is keyed by a number; in their table 0 is a word."""
    data = make_own_data(tmp_path / "data")
    data.write_rows([{**row, "diagnosis": str(["benign", "malignant"].index(row["diagnosis"]))} for row in data.rows()])
    settings = {"source": str(data.table), "class_column": "diagnosis"}
    result = cl.evaluate(
        own_run, data={**settings, "rename": {"classes": {0: "benign", 1: "malignant"}}}, out=tmp_path / "a.json"
    )
    expected = cl.evaluate(own_run, data={**settings, "source": str(own.table)}, out=tmp_path / "b.json")
    assert numbers(result) == numbers(expected)


def test_external_folders(own: OwnData, own_run: Path, tmp_path: Path) -> None:
    folders = tmp_path / "archive"
    shutil.copytree(own.folders / "benign", folders / "Nevi")
    shutil.copytree(own.folders / "malignant", folders / "malignant")
    shutil.copytree(own.folders / "benign", folders / "Warts")
    rename = {"classes": {"nevi": "benign", "warts": None}}
    result = cl.evaluate(own_run, data={"source": str(folders), "rename": rename}, out=tmp_path / "out.json")
    assert result.metrics["class"]["n"] == 40
    same = cl.evaluate(own_run, data=str(own.folders), out=tmp_path / "same.json")
    # The table named its images in another order; each image counts once in both.
    assert sorted(map(tuple, result.metrics["class"]["confusion"])) == sorted(
        map(tuple, same.metrics["class"]["confusion"])
    )


def test_external_data_with_some_of_the_classes(own_run: Path, tmp_path: Path) -> None:
    """A hospital that sends one class only: sensitivity without specificity."""
    data = make_own_data(tmp_path / "data")
    data.write_rows([row for row in data.rows() if row["diagnosis"] == "malignant"])
    result = cl.evaluate(
        own_run, data={"source": str(data.table), "class_column": "diagnosis"}, out=tmp_path / "out.json"
    ).metrics["class"]
    assert result["n"] == 20
    assert result["macro_auc"] is None
    assert result["per_class"][0]["sensitivity"] is None
    assert result["per_class"][1]["sensitivity"] is not None


def test_external_arrays_with_some_of_the_classes(own: OwnData, own_run: Path, tmp_path: Path) -> None:
    """Labels that never reach the last class are still read in the run's order of classes."""
    from PIL import Image

    pixels = [np.asarray(Image.open(own.image(number)))[..., ::-1] for number in range(0, 10, 2)]
    np.save(tmp_path / "dataList.npy", np.stack(pixels))
    np.save(tmp_path / "labelList.npy", np.zeros(5, dtype=np.int64))
    result = cl.evaluate(own_run, data=str(tmp_path), out=tmp_path / "out.json").metrics["class"]
    assert result["n"] == 5
    assert [row["class"] for row in result["per_class"]] == ["benign", "malignant"]


def test_external_data_without_classes_is_measured_by_its_concepts(own_run: Path, tmp_path: Path) -> None:
    data = make_own_data(tmp_path / "data")
    data.drop("diagnosis")
    result = cl.evaluate(own_run, data=str(data.table), out=tmp_path / "out.json")
    assert result.metrics["class"]["n"] == 0
    assert result.metrics["concept"]["balanced_accuracy"] is not None
    assert "concept balanced accuracy" in result.text()
    assert "class accuracy" not in result.text()


@pytest.mark.parametrize(
    ("rename", "message"),
    [
        ({}, "'Nevus' is not one of the classes"),
        ({"classes": {"nevus": "bening"}}, "Did you mean 'benign'"),
        ({"classes": {"nevus": "benign"}}, "'Melanoma' is not one of the classes"),
        ({"columns": {"bordr": "outline"}}, "Did you mean 'border'"),
        ({"columns": {"border": "outlin"}}, "Did you mean 'outline'"),
        ({"values": {"bordr": {}}}, "Did you mean 'border'"),
        ({"values": {"border": {"smooth": "regulr"}}}, "Did you mean 'regular'"),
        ({"columns": {"border": "seen", "signs": "seen"}}, "seen"),
    ],
)
def test_wrong_names(own_run: Path, theirs: OwnData, rename: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        cl.evaluate(own_run, data={**their_settings(theirs), "rename": rename})


def test_what_cannot_be_measured(own: OwnData, own_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Did you mean 'test'"):
        cl.evaluate(own_run, split="tset")
    data = make_own_data(tmp_path / "data")
    data.drop("split")
    with pytest.raises(UserError, match="--split all"):
        cl.evaluate(own_run, data={"source": str(data.table), "class_column": "diagnosis"}, split="test")
    with pytest.raises(UserError, match="The drawn data set has the classes"):
        cl.evaluate(own_run, data="shapes")
    with pytest.raises(UserError, match="no such file"):
        cl.evaluate(own_run, data=str(tmp_path / "none.csv"))
    assert not (own_run / "evaluation" / "shapes-all.json").exists()
