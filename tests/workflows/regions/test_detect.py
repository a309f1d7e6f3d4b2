"""Detections in and tables out: the published JSON, its neighbors, and what is not one."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conceptlens.api import detect_concepts
from conceptlens.cli import main
from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.sources.open import open_source
from conceptlens.recipes.parse import load_recipe
from conceptlens.workflows.regions import detectors
from conceptlens.workflows.regions.detect import phrases
from conceptlens.workflows.regions.detections import Detection, plain, read_detections
from conceptlens.workflows.regions.segment import chosen, rows_of_each, write_segments


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = ["image,class,split"]
    for index in range(4):
        Image.new("RGB", (40, 30), (index * 40, 0, 0)).save(tmp_path / f"bird{index}.png")
        rows.append(f"bird{index}.png,{'ab'[index % 2]},{('train', 'train', 'val', 'test')[index]}")
    (tmp_path / "images.csv").write_text("\n".join(rows))
    (tmp_path / "words.txt").write_text("a red beak\nLong tail.\nwebbed feet\n")
    return tmp_path / "images.csv"


def published(folder: Path) -> Path:
    """As VLG-CBM writes them: row 0 has two beaks and a weak tail, row 1 nothing, row 3 is named; row 2 is missing."""
    folder.mkdir()

    def entry(label: str, logit: float, box: list[float]) -> dict[str, object]:
        return {"logits": [logit], "logit": logit, "label": label, "box": box}

    beaks = [entry("red beak", 0.3, [1, 2, 11, 12]), entry("red beak", 0.6, [-1, 5, 9, 25])]
    (folder / "0.json").write_text(json.dumps([{"img_path": None}, *beaks, entry("long tail", 0.1, [0, 0, 5, 5])]))
    (folder / "1.json").write_text(json.dumps([{"img_path": None}]))
    named = [
        {"img_path": ["somewhere/bird3.png", 7]},
        entry("long tail", 0.2, [3, 3, 30, 20]),
        entry("bird", 0.9, [0, 0, 9, 9]),
    ]
    (folder / "77.json").write_text(json.dumps(named))
    return folder


def test_published_annotations_become_labels_and_boxes(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = detect_concepts(table, concepts=tmp_path / "words.txt", out=out, detections=published(tmp_path / "json"))
    assert found.shown == {"red beak": 1, "long tail": 1, "webbed feet": 0}
    assert "never seen: webbed feet" in found.text()
    section = {"source": str(out / "labels.csv"), "images": str(tmp_path), "regions": {"boxes": str(out / "boxes.csv")}}
    source, concepts = open_source(load_recipe({"data": section}).data, ConceptSet.load(out / "concepts.yaml"))
    assert concepts.names == ["detected: red beak", "detected: long tail", "detected: webbed feet"]
    assert source.examples.concepts.tolist() == [[1, 0, 0], [0, 0, 0], [-1, -1, -1], [0, 1, 0]]
    assert source.examples.split == ("train", "train", "val", "test")
    first = source.annotation(0)
    assert first is not None
    assert first.boxes == {"detected: red beak": (0.0, 5.0, 9.0, 25.0)}  # the surer of two, cut at the edge
    assert source.annotation(1) is None


def test_the_command_says_what_it_needs(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data", "detect", str(table), "--concepts", str(tmp_path / "words.txt"), "--out", str(tmp_path / "out")]
    assert main(words) == 2
    assert "either --detections" in capsys.readouterr().err
    (tmp_path / "odd.json").write_text(json.dumps({"bird0.png": [{"box": [1, 2, 3], "label": "x", "score": 1}]}))
    assert main([*words, "--detections", str(tmp_path / "odd.json")]) == 2
    assert "`box` of four numbers" in capsys.readouterr().err
    (tmp_path / "odd.json").write_text(json.dumps({"cat.png": []}))
    assert main([*words, "--detections", str(tmp_path / "odd.json")]) == 2
    assert "none of the images" in capsys.readouterr().err


def test_spellings() -> None:
    assert plain(" The  Red beak. ") == plain("a red beak") == "red beak"
    with pytest.raises(UserError, match="a phrase a line"):
        phrases("nowhere.txt")


def test_a_pipelines_answers_are_read(tmp_path: Path) -> None:
    box = {"xmin": 1, "ymin": 2, "xmax": 3, "ymax": 4}
    (tmp_path / "one.json").write_text(json.dumps({"a.png": [{"score": 0.5, "label": "A wing", "box": box}]}))
    assert read_detections(tmp_path / "one.json", ["b.png", "a.png"]) == {1: [Detection("wing", 0.5, (1, 2, 3, 4))]}


def test_a_detector_is_run_once_for_each_image(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []

    def detect(image: Image.Image, labels: Sequence[str]) -> list[Detection]:
        seen.append(image.size)
        return [Detection(labels[0], 0.4, (1.0, 1.0, 20.0, 20.0))]

    monkeypatch.setattr(detectors, "open_detector", lambda name, least: detect)
    options = {"concepts": tmp_path / "words.txt", "out": tmp_path / "out", "detector": "any"}
    assert detect_concepts(table, **options).boxes == 4  # type: ignore[arg-type]
    again = detect_concepts(table, threshold=0.5, **options)  # type: ignore[arg-type]
    assert (len(seen), again.boxes) == (4, 0)


def test_segments_become_mask_files(table: Path, tmp_path: Path) -> None:
    section = {"source": str(table)}
    source, _ = open_source(load_recipe({"data": section}).data, ConceptSet.none())
    left, speck, whole = (np.zeros((30, 40), bool) for _ in range(3))
    left[:, :15], speck[0, 0], whole[:] = True, True, True
    assert [mask is left for mask in chosen([speck, whole, left, left], 1, 0.01, 0.6)] == [True]
    rows = rows_of_each(source, 1, seed=0)
    assert sorted(source.examples.labels[rows].tolist()) == [0, 1]
    assert 3 not in rows_of_each(source, 0, seed=0)  # never of the test split
    calls: list[int] = []

    def segment(image: Image.Image) -> list[np.ndarray]:
        calls.append(1)
        return [left, whole, left]

    out = tmp_path / "segments"
    for _ in range(2):
        found = write_segments(source, segment, out, rows=[0, 1], most=5, smallest=0.01, largest=0.6)
    assert (len(calls), found.segments) == (2, 4)  # what is done is not done again
    import yaml

    regions = yaml.safe_load((out / "regions.yaml").read_text())
    source, _ = open_source(load_recipe({"data": {**section, "regions": regions}}).data, ConceptSet.none())
    annotation = source.annotation(0)
    assert annotation is not None
    assert set(annotation.masks) == {"segment 1", "segment 2"}
    assert np.array_equal(annotation.masks["segment 1"], left)
