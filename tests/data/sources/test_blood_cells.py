import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib import resources

import numpy as np
import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.data.sources.blood_cells import BloodCells, OffCenterBloodCells


@pytest.fixture(scope="module")
def blood() -> BloodCells:
    return BloodCells()


def test_what_the_package_holds(blood: BloodCells) -> None:
    assert len(blood) == 1850
    assert Counter(blood.examples.split) == {"train": 1150, "val": 200, "test": 500}
    assert sorted(blood.classes) == ["Basophil", "Eosinophil", "Lymphocyte", "Monocyte", "Neutrophil"]
    per_split = Counter(zip(blood.examples.split or (), blood.examples.labels.tolist(), strict=True))
    assert set(per_split.values()) == {230, 40, 100}
    folder = resources.files("conceptlens.data.sources").joinpath("builtin")
    assert len(folder.joinpath("blood-cells.zip").read_bytes()) <= 5_300_000
    notice = folder.joinpath("ATTRIBUTION.md").read_text("utf-8")
    assert all(word in notice for word in ("Acevedo", "CC BY 4.0", "WBCAtt", "MIT License", "WITHOUT WARRANTY"))


def test_every_value_is_in_every_split(blood: BloodCells) -> None:
    concepts = ConceptSet.load("blood-cells")
    assert (len(concepts.groups), len(concepts)) == (11, 31)
    split = np.array(blood.examples.split)
    for side in ("train", "val", "test"):
        assert (blood.examples.concepts[split == side] == 1).any(0).all()
    exclusive = np.array([(blood.examples.concepts[:, group.concepts] == 1).sum(1).max() for group in concepts.groups])
    assert exclusive.tolist() == [1] * 11


def test_one_cell_by_hand(blood: BloodCells) -> None:
    concepts = ConceptSet.load("blood-cells")
    index = next(i for i, label in enumerate(blood.examples.labels) if blood.classes[label] == "Lymphocyte")
    holds = {concepts.concepts[k].name for k in np.flatnonzero(blood.examples.concepts[index] == 1)}
    assert "granularity: no" in holds
    assert len(holds) >= 9  # granule type and color have no meaning without granules, if the set says so
    image = blood.read(index)
    assert image.mode == "RGB"
    assert max(image.size) == 96
    assert np.asarray(image).std() > 10


def test_reading_from_threads_and_other_processes(blood: BloodCells) -> None:
    expected = [np.asarray(blood.read(index)) for index in range(24)]
    with ThreadPoolExecutor(4) as pool:
        for image, wanted in zip(pool.map(blood.read, range(24)), expected, strict=True):
            assert (np.asarray(image) == wanted).all()
    data = pickle.dumps(blood)
    assert len(data) < 1_000_000  # the archive does not travel
    assert (np.asarray(pickle.loads(data).read(3)) == expected[3]).all()


def test_with_other_words(blood: BloodCells) -> None:
    concepts = ConceptSet.from_yaml("groups: {size: {column: cell_size, values: [big, small]}}")
    mine = BloodCells(concepts)
    assert mine.examples.concepts.shape == (1850, 2)
    assert (mine.examples.concepts.sum(1) == 1).all()
    assert mine.classes == tuple(sorted(blood.classes))
    assert "granularity" in mine.examples.metadata


def test_where_cell_and_nucleus_are(blood: BloodCells) -> None:
    assert blood.region_names == ("object", "nucleus", "cytoplasm")
    share = (blood._maps > 0).mean((1, 2))
    assert 0.02 < share.min() < share.max() < 0.7  # every image has a cell
    for index in range(0, 1850, 370):
        image, annotation = blood.read(index), blood.annotation(index)
        assert annotation is not None
        assert annotation.size == image.size
        cell, nucleus, cytoplasm = (annotation.masks[part] for part in blood.region_names)
        assert np.array_equal(cell, nucleus | cytoplasm)
        assert not (nucleus & cytoplasm).any()
        red = np.asarray(image)[..., 0]
        assert red[nucleus].mean() < red[cytoplasm].mean() < red[~cell].mean()  # nuclear stain takes red light away


def test_cells_off_center(blood: BloodCells) -> None:
    moved = OffCenterBloodCells()
    assert moved.examples.ids == blood.examples.ids
    chosen, centers = range(3, 1850, 150), []
    for index in chosen:
        image, annotation, own = moved.read(index), moved.annotation(index), blood.annotation(index)
        assert annotation is not None
        assert own is not None
        assert image.size == annotation.size == (128, 128)
        assert np.array_equal(np.asarray(image), np.asarray(moved.read(index)))  # always the same picture
        there, here = annotation.masks["nucleus"], own.masks["nucleus"]
        assert there.sum() == here.sum()
        pixels = np.asarray(image, dtype=float)[there], np.asarray(blood.read(index), dtype=float)[here]
        assert np.abs(pixels[0] - pixels[1]).mean() < 6  # the same pixels, but for soft edges
        centers.append(np.argwhere(annotation.masks["object"]).mean(0) / 128)
    assert np.std(centers, axis=0).min() > 0.1
    assert np.std([np.argwhere(blood.annotation(index).masks["object"]).mean(0) / 96 for index in chosen]) < 0.05  # type: ignore[union-attr]


def test_backgrounds_come_from_the_same_split() -> None:
    moved = OffCenterBloodCells()
    splits = np.array(moved.examples.split)
    assert all((splits[rows] == split).all() for split, rows in moved._donors.items())
    assert {split: len(rows) > 0.45 * (splits == split).sum() for split, rows in moved._donors.items()} == {
        "train": True,
        "val": True,
        "test": True,
    }
