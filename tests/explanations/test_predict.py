"""Predictions of image files: what the model says, in the order asked for, whatever else is among the files."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import conceptlens as cl
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json
from conceptlens.data.images.read import open_image, resize_square
from conceptlens.explanations.predict import Prediction, Predictions
from conceptlens.explanations.subjects import find_images
from conceptlens.runs.saved import load_pipeline
from tests.own_data import OwnData


def by_hand(run: Path, file: Path) -> tuple[list[float], list[float]]:
    """Class and concept probabilities of one image alone, from the saved model."""
    pipeline, card, concepts = load_pipeline(run)
    pixels = resize_square(open_image(file, name="x"), card.image_size, card.fit)
    with torch.no_grad():
        output = pipeline(torch.from_numpy(pixels)[None])
    scores = output.concept_logits[0].double()
    shares = torch.cat(
        [
            scores[group.concepts].softmax(-1) if group.kind == "exclusive" else scores[group.concepts].sigmoid()
            for group in concepts.groups
        ]
    )
    logits = output.logits[0].double()
    return (logits.sigmoid() if card.task == "multilabel" else logits.softmax(-1)).tolist(), shares.tolist()


def test_what_the_model_says(own: OwnData, own_run: Path) -> None:
    for item, number in zip(cl.predict(own_run, [own.image(n) for n in range(3)]).items, range(3), strict=True):
        classes, concepts = by_hand(own_run, own.image(number))
        assert item.image == str(own.image(number))
        assert item.probabilities is not None
        assert item.concepts is not None
        assert list(item.probabilities) == ["benign", "malignant"]
        assert list(item.probabilities.values()) == pytest.approx(classes, abs=1e-5)
        assert item.predicted == ["benign", "malignant"][int(np.argmax(classes))]
        told = [share for values in item.concepts.values() for share in values.values()]
        assert told == pytest.approx(concepts, abs=1e-5)
        assert sum(item.concepts["border"].values()) == pytest.approx(1)


def test_test_images_are_told_apart_as_measured(own: OwnData, own_run: Path) -> None:
    """The share of right predictions of the test files is the accuracy in metrics.json."""
    test = range(32, 40)
    items = cl.predict(own_run, [own.image(number) for number in test]).items
    right = [item.predicted == ("benign", "malignant")[number % 2] for item, number in zip(items, test, strict=True)]
    assert np.mean(right) == pytest.approx(read_json(own_run / "metrics.json")["splits"]["test"]["class"]["accuracy"])


def test_many_files_keep_their_order_around_bad_ones(own: OwnData, own_run: Path, tmp_path: Path) -> None:
    """More than a batch, with damaged files at its edges; twice the same file is twice the same answer."""
    (tmp_path / "bad.png").write_bytes(b"")
    files = [own.image(number % 40) for number in range(70)]
    for place in (0, 31, 32, 63, 69):
        files[place] = tmp_path / "bad.png"
    found = cl.predict(own_run, files)
    assert [item.image for item in found.items] == [str(file) for file in files]
    assert [place for place, item in enumerate(found.items) if item.error] == [0, 31, 32, 63, 69]
    assert len(found.failed) == 5
    alone = {number: cl.predict(own_run, [own.image(number)]).items[0].probabilities for number in (1, 33 % 40)}
    for number, expected in alone.items():
        assert found.items[number].probabilities == pytest.approx(expected, abs=1e-5)
    assert found.items[2].probabilities == pytest.approx(found.items[42].probabilities, abs=1e-6)


def test_csv_and_json_say_the_same(own: OwnData, own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "bad, file.png").write_bytes(b"")
    files = [own.image(0), tmp_path / "bad, file.png", own.image(1)]
    items = cl.predict(own_run, files, out=tmp_path / "said.json").items
    assert cl.predict(own_run, files, out=tmp_path / "said.csv").items == items
    stored = read_json(tmp_path / "said.json")
    assert stored["run"] == "run"
    assert [entry["image"] for entry in stored["predictions"]] == [str(file) for file in files]
    assert stored["predictions"][0] == items[0].__dict__
    with (tmp_path / "said.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "image", "class", "p(benign)", "p(malignant)",
        "border: regular", "border: irregular", "signs: hair", "signs: ruler",
        "unlike_training", "prediction_set", "error",
    ]  # fmt: skip
    for row, item in zip(rows, items, strict=True):
        assert row["image"] == item.image
        assert row["error"] == (item.error or "")
        assert row["class"] == (item.predicted or "")
        if item.probabilities is not None and item.concepts is not None:
            assert float(row["p(benign)"]) == pytest.approx(item.probabilities["benign"], abs=1e-6)
            assert float(row["signs: ruler"]) == pytest.approx(item.concepts["signs"]["ruler"], abs=1e-6)


def test_several_classes_at_the_thresholds_of_validation(own: OwnData, tmp_path: Path) -> None:
    (tmp_path / "concepts.yaml").write_text("groups: {border: {values: [regular, irregular]}}")
    changes = {
        "data": {"class_column": "findings", "task": "multilabel"},
        "concepts": str(tmp_path / "concepts.yaml"),
        "out": str(tmp_path / "run"),
        "training": {"epochs": 1},
    }
    run = cl.train(own.recipe, changes, quiet=True).path
    thresholds = read_json(run / "model" / "model.json")["thresholds"]
    found = cl.predict(run, [own.image(number) for number in range(20)], out=tmp_path / "said.csv")
    for number, item in enumerate(found.items):
        assert item.probabilities is not None
        classes, _ = by_hand(run, own.image(number))
        assert list(item.probabilities.values()) == pytest.approx(classes, abs=1e-5)
        held = [
            name for name, share, cut in zip(item.probabilities, item.probabilities.values(), thresholds, strict=True)
            if share >= cut
        ]  # fmt: skip
        assert item.predicted == held
    with (tmp_path / "said.csv").open(newline="", encoding="utf-8") as file:
        told = [row["class"] for row in csv.DictReader(file)]
    assert told == [";".join(item.predicted or []) for item in found.items]
    assert "scar" in found.text() or "cyst" in found.text()


def test_lines_for_people() -> None:
    """Of an exclusive group the likeliest value is told, of an independent one those that hold, if any."""
    concepts = {"border": {"regular": 0.3, "irregular": 0.7}, "signs": {"hair": 0.4, "ruler": 0.45, "gel": 0.9}}
    one = Prediction("a.png", "benign", {"benign": 0.875, "malignant": 0.125}, concepts)
    assert one.line({"signs"}) == "a.png: benign (88%)\n    border: irregular (70%); signs: gel (90%)"
    quiet = Prediction("b.png", [], {"cyst": 0.1}, {"signs": {"hair": 0.4}})
    assert quiet.line({"signs"}) == "b.png: no class\n    signs: none"
    both = Prediction("c.png", ["cyst", "scar"], {"cyst": 0.6, "scar": 0.7}, {"signs": {"hair": 0.6, "gel": 0.5}})
    assert both.line({"signs"}) == "c.png: cyst (60%), scar (70%)\n    signs: hair (60%), gel (50%)"
    bad = Prediction("d.png", error="d.png: it is empty")
    text = Predictions([one, bad], Path("said.csv"), frozenset({"signs"})).text()
    assert text.endswith("\n1 prediction written to said.csv")
    assert "d.png" not in text  # told on the error stream


def test_folders_are_searched_and_files_taken_as_named(tmp_path: Path) -> None:
    for name in ("b/2.JPG", "b/1.png", "a/deep/3.webp", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = find_images([tmp_path / "b", tmp_path / "a", tmp_path / "notes.txt"])
    assert [str(file.relative_to(tmp_path)) for file in found] == ["b/1.png", "b/2.JPG", "a/deep/3.webp", "notes.txt"]
    (tmp_path / "c").mkdir()
    with pytest.raises(UserError, match="no image in this folder"):
        find_images([tmp_path / "c"])


def test_any_kind_of_image(own_run: Path, tmp_path: Path) -> None:
    """Gray, transparent, 16-bit, one pixel, and very wide: all become what the model reads."""
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (20, 30), dtype=np.uint8)).save(tmp_path / "gray.png")
    Image.fromarray(rng.integers(0, 256, (20, 30, 4), dtype=np.uint8), "RGBA").save(tmp_path / "alpha.png")
    Image.fromarray(rng.integers(0, 65536, (20, 30), dtype=np.uint16)).save(tmp_path / "deep.tif")
    Image.new("RGB", (1, 1), "red").save(tmp_path / "dot.bmp")
    Image.new("RGB", (2000, 3), "red").save(tmp_path / "line.jpg")
    found = cl.predict(own_run, [tmp_path])
    assert [Path(item.image).stem for item in found.items] == ["alpha", "deep", "dot", "gray", "line"]
    assert not found.failed


def test_deep_gray_is_read_with_the_window_of_the_run(own: OwnData, tmp_path: Path) -> None:
    run = cl.train(own.recipe, ["--data.window", "[0, 1000]", "--training.epochs", "1", "--out", str(tmp_path / "r")])
    steps = np.linspace(0, 1000, 30 * 20).reshape(20, 30)
    Image.fromarray(np.rint(steps * 255 / 1000).astype(np.uint8)).save(tmp_path / "shallow.png")
    steps[0, 0] = 60_000  # the image's own range would turn all else black
    Image.fromarray(steps.astype(np.uint16)).save(tmp_path / "deep.png")
    deep, shallow = cl.predict(run.path, [tmp_path / "deep.png", tmp_path / "shallow.png"]).items
    assert deep.probabilities is not None
    assert shallow.probabilities is not None
    assert list(deep.probabilities.values()) == pytest.approx(list(shallow.probabilities.values()), abs=0.02)
    assert load_pipeline(run.path)[1].window == (0.0, 1000.0)


def test_what_is_refused(own: OwnData, own_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\.csv or \.json"):
        cl.predict(own_run, [own.image(0)], out=tmp_path / "said.xlsx")
    with pytest.raises(UserError, match="No image was named"):
        cl.predict(own_run, [])
