from pathlib import Path

import pytest

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.checks.findings import Problems
from conceptlens.data.sources.folder import Folder
from conceptlens.recipes.schema import DataConfig

OPEN = "groups: {colour: {values: [red, blue]}}"


def config(**options: object) -> DataConfig:
    return DataConfig("x", **options)  # type: ignore[arg-type]


def test_a_folder_per_class(tmp_path: Path, cells: ConceptSet, paint) -> None:
    for name in ("monocyte/b.png", "monocyte/deeper/a.JPG", "NEUTROPHIL/c.png", "monocyte/.hidden.png"):
        paint(tmp_path / name)
    paint(tmp_path / "__MACOSX" / "x.png")
    (tmp_path / "monocyte" / "notes.txt").write_text("skip me")
    problems = Problems()
    folder = Folder(tmp_path, config(), cells, problems)
    assert folder.classes == ("Neutrophil", "Monocyte")
    assert folder.examples.ids == ("NEUTROPHIL/c.png", "monocyte/b.png", "monocyte/deeper/a.JPG")
    assert folder.examples.labels.tolist() == [0, 1, 1]
    assert folder.examples.split is None
    # granule type small/coarse/nil · vacuole unknown · signs spots/stripes, by class
    unknown = [UNKNOWN] * 2
    assert folder.examples.concepts.tolist() == [
        [1, 0, 0, *unknown, 1, 0],
        [0, 0, 1, *unknown, 0, 0],
        [0, 0, 1, *unknown, 0, 0],
    ]
    assert folder.read(1).size == (40, 40)
    assert [finding.code for finding in problems.findings] == ["skipped-files"]


def test_split_folders(tmp_path: Path, cells: ConceptSet, paint) -> None:
    for name in ("train/Monocyte/a.png", "train/Neutrophil/b.png", "Valid/Monocyte/c.png", "test/Neutrophil/d.png"):
        paint(tmp_path / name)
    examples = Folder(tmp_path, config(), cells).examples
    assert dict(zip(examples.ids, examples.split or (), strict=True)) == {
        "train/Monocyte/a.png": "train",
        "train/Neutrophil/b.png": "train",
        "Valid/Monocyte/c.png": "val",
        "test/Neutrophil/d.png": "test",
    }


def test_a_class_called_test_among_others_is_a_class(tmp_path: Path, paint) -> None:
    paint(tmp_path / "test" / "a.png")
    paint(tmp_path / "other" / "b.png")
    folder = Folder(tmp_path, config(), ConceptSet.from_yaml(OPEN))
    assert folder.classes == ("other", "test")
    assert folder.examples.split is None


def test_classes_in_order(tmp_path: Path, paint) -> None:
    for name in ("10", "9", "0"):
        paint(tmp_path / name / "a.png")
    concepts = ConceptSet.from_yaml(OPEN)
    assert Folder(tmp_path, config(task="ordinal"), concepts).classes == ("0", "9", "10")
    assert Folder(tmp_path, config(classes=["9", "10", "0"]), concepts).examples.labels.tolist() == [2, 1, 0]
    paint(tmp_path / "mild" / "a.png")
    with pytest.raises(UserError, match="needs the order of its classes"):
        Folder(tmp_path, config(task="ordinal"), concepts)


def test_unknown_class_names_the_closest(tmp_path: Path, cells: ConceptSet, paint) -> None:
    paint(tmp_path / "neutrofil" / "a.png")
    paint(tmp_path / "Monocyte" / "b.png")
    with pytest.raises(UserError, match=r"'neutrofil' is not one of the classes\. Did you mean 'Neutrophil'"):
        Folder(tmp_path, config(), cells)
    problems = Problems(strict=False)
    assert Folder(tmp_path, config(), cells, problems).examples.ids == ("Monocyte/b.png",)
    assert [finding.code for finding in problems.findings] == ["unknown-class"]


def test_folders_that_will_not_do(tmp_path: Path, cells: ConceptSet, paint) -> None:
    paint(tmp_path / "loose.png")
    with pytest.raises(UserError, match=r"found 1 image and no folder.*`conceptlens init"):
        Folder(tmp_path, config(), cells)
    (tmp_path / "Monocyte").mkdir()
    with pytest.raises(UserError, match="no images in its folders"):
        Folder(tmp_path, config(), cells)
    with pytest.raises(UserError, match="needs a table"):
        Folder(tmp_path, config(task="multilabel"), cells)
    paint(tmp_path / "Monocyte" / "a.png")
    with pytest.raises(UserError, match="Unknown class 'Monocite'"):
        Folder(tmp_path, config(classes=["Monocite"]), cells)
