"""The worked examples of docs/own-data.md, small."""

import csv
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests import ROOT

sys.path.insert(0, str(ROOT / "examples"))
import own_data

pytestmark = pytest.mark.slow


def test_blood_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = own_data.blood_cells(tmp_path, small=True)
    said = capsys.readouterr().out
    assert "cross-validated images" in said
    assert "5 folds" in said
    assert model.recipe.data.class_column == "label"


def test_folder_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = own_data.folder_alone(tmp_path, small=True)
    assert model.info["method"] == "black-box"
    assert (tmp_path / "to-label.csv").read_text().count("\n") == 21
    assert "no concepts yet" in capsys.readouterr().out


def test_idrid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder laid out as IDRiD: equal names in both sets, masks of copies with other names."""
    root = tmp_path / "IDRiD"
    generator = np.random.default_rng(0)
    for side, count in (("a. Training Set", 40), ("b. Testing Set", 20)):
        rows = []
        for number in range(count):
            pixels = Image.fromarray(generator.integers(0, 200, (24, 32, 3), dtype=np.uint8)).resize((96, 72))
            place = root / "grading" / "1. Original Images" / side
            place.mkdir(parents=True, exist_ok=True)
            pixels.save(place / f"IDRiD_{number + 1:03d}.jpg", quality=95)
            rows.append([f"IDRiD_{number + 1:03d}", number % 5, number % 3])
            if side.startswith("a") and number < 8:  # the same photograph under another name, with masks
                copied = root / "segmentation" / "1. Original Images" / side
                copied.mkdir(parents=True, exist_ok=True)
                pixels.save(copied / f"IDRiD_{number + 41:02d}.jpg", quality=90)
                for part, code in (("1. Microaneurysms", "MA"), ("2. Haemorrhages", "HE"))[: 1 + number % 2]:
                    masks = root / "segmentation" / "2. All Segmentation Groundtruths" / side / part
                    masks.mkdir(parents=True, exist_ok=True)
                    drawn = np.zeros((72, 96), np.uint8)
                    drawn[20:40, 10:30] = 255
                    Image.fromarray(drawn).save(masks / f"IDRiD_{number + 41:02d}_{code}.png")
        (root / "grading" / "labels").mkdir(exist_ok=True)
        name = f"{side[:3]}IDRiD_Disease Grading_{side[3:].replace('Set', 'Labels')}.csv"
        with (root / "grading" / "labels" / name).open("w", newline="") as file:
            csv.writer(file).writerows([["Image name", "Retinopathy grade", "Risk of macular edema "], *rows])
    model = own_data.idrid(tmp_path, root, small=True)
    said = capsys.readouterr().out
    assert "masks belong to a nearly equal copy of their image" in said
    assert len(model.splits.test) == 20
    assert set(model.source.region_names) == {"microaneurysms", "haemorrhages"}
