"""Masks among images are recognized by name and pixels, refused for training, and united as regions."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.checks.masks import find_masks, is_flat
from conceptlens.data.images.names import FileNames
from conceptlens.data.sources.open import open_source
from conceptlens.recipes.parse import load_recipe


def save(path: Path, pixels: np.ndarray, **options: int) -> None:  # type: ignore[type-arg]
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)


def noise(seed: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.random.default_rng(seed).integers(0, 256, (64, 64, 3), dtype=np.uint8)


def block(rows: slice, level: int = 255) -> np.ndarray:  # type: ignore[type-arg]
    pixels = np.zeros((64, 64), dtype=np.uint8)
    pixels[rows] = level
    return pixels


def test_flat_pixels(tmp_path: Path) -> None:
    save(tmp_path / "binary.png", block(slice(0, 20)))
    save(tmp_path / "blurred.jpg", block(slice(0, 20)), quality=60)
    save(tmp_path / "parts.png", np.stack([block(slice(0, 9), 40), block(slice(9, 30), 90), block(slice(0, 0))], 2))
    save(tmp_path / "photo.png", noise(0))
    save(tmp_path / "gray.png", noise(1)[..., 0])
    (tmp_path / "broken.png").write_bytes(b"no image")
    flat = {path.name for path in tmp_path.iterdir() if is_flat(path)}
    assert flat == {"binary.png", "blurred.jpg", "parts.png"}


def test_masks_by_suffix_by_folder_and_by_equal_stem(tmp_path: Path) -> None:
    for number in range(3):
        save(tmp_path / "images" / f"a_{number}.png", noise(number))
        save(tmp_path / "images" / f"a_{number}_segmentation.png", block(slice(0, 30)))
        save(tmp_path / "truth" / "1. Soft Exudates" / f"a_{number}_SE.png", block(slice(0, 5)))
        save(tmp_path / "gt" / f"a_{number}.png", block(slice(0, 7)))
    files = [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*.png"))]
    masks = find_masks(tmp_path, files)
    assert len(masks) == 9
    assert {mask.image for mask in masks} == {"images/a_0.png", "images/a_1.png", "images/a_2.png"}
    assert not find_masks(tmp_path, [file for file in files if file.startswith("gt/")])  # drawings, with no image
    alone = [file for file in files if file.startswith(("images", "truth"))]
    parts = {mask.part for mask in find_masks(tmp_path, [file for file in alone if "segmentation" not in file])}
    assert parts == {"se"}
    both = find_masks(tmp_path, [file for file in files if "segmentation" not in file])
    assert {mask.part for mask in both} == {"soft exudates", "object"}


def test_photographs_with_equal_names_are_no_masks(tmp_path: Path) -> None:
    """A folder per class, each counting from 1; and segmented neutrophils, whose name says nothing of masks."""
    for kind in ("segmented", "band"):
        for number in range(3):
            save(tmp_path / kind / f"{number}.png", noise(hash((kind, number)) % 1000))
    files = [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*.png"))]
    assert find_masks(tmp_path, files) == []


def test_a_folder_with_masks_is_refused(tmp_path: Path) -> None:
    for kind in ("benign", "malignant"):
        for number in range(3):
            save(tmp_path / kind / f"{number}.png", noise(number))
            save(tmp_path / kind / f"{number}_mask.png", block(slice(0, 9)))
    config = load_recipe({"data": {"source": str(tmp_path)}}).data
    with pytest.raises(UserError, match=r"6 files look like masks.*data\.regions\.masks"):
        open_source(config, ConceptSet.none())


def test_several_masks_of_one_image_are_united(tmp_path: Path) -> None:
    for kind in ("a", "b"):
        save(tmp_path / "images" / kind / f"{kind}.png", noise(1))
        save(tmp_path / "masks" / f"{kind}_1.png", block(slice(0, 8)))
        save(tmp_path / "masks" / f"{kind}_2.png", block(slice(32, 40)))
    settings = {"masks": str(tmp_path / "masks"), "mask_files": {"object": "{name}_*.png"}}
    config = load_recipe({"data": {"source": str(tmp_path / "images"), "regions": settings}}).data
    source, _ = open_source(config, ConceptSet.none())
    annotation = source.annotation(0)
    assert annotation is not None
    assert annotation.masks["object"].sum() == 16 * 64  # 8 rows of each


def test_mask_columns_hold_a_file_for_each_part(tmp_path: Path) -> None:
    save(tmp_path / "a.png", noise(0))
    save(tmp_path / "b.png", noise(1))
    save(tmp_path / "m" / "x.png", block(slice(0, 4)))
    save(tmp_path / "m" / "y.png", block(slice(4, 10)))
    text = "image,class,disc,vessel\na.png,k,m/x.png,m/x.png;m/y.png\nb.png,l,,\n"
    (tmp_path / "t.csv").write_text(text)
    regions = {"masks": str(tmp_path), "mask_columns": {"disc": "disc", "vessel": "vessel"}}
    config = load_recipe({"data": {"source": str(tmp_path / "t.csv"), "regions": regions}}).data
    source, _ = open_source(config, ConceptSet.none())
    annotation = source.annotation(0)
    assert annotation is not None
    assert {part: int(found.sum()) // 64 for part, found in annotation.masks.items()} == {"disc": 4, "vessel": 10}
    assert source.annotation(1) is None
    (tmp_path / "t.csv").write_text(text.replace("m/y.png", "m/z.png"))
    with pytest.raises(UserError, match=r"z\.png: no such mask"):
        open_source(config, ConceptSet.none())


def test_names_are_found_by_the_folders_they_share() -> None:
    files = FileNames(["Training Set/001.jpg", "Testing Set/001.jpg", "x/only.png"])
    assert files.find("001", "labels/a. Training Labels.csv") == "Training Set/001.jpg"
    assert files.find("001.JPG", "testing.csv") == "Testing Set/001.jpg"
    assert files.find("001", "labels.csv") is None  # either
    assert files.find("old\\disk\\only.png") == "x/only.png"
    assert files.find("none") is None
    assert files.find("") is None


def test_a_cell_of_any_length_is_no_file() -> None:
    files = FileNames(["a/7.png"])
    assert files.find("9" * 6000) is None
    assert files.find("a/" * 60_000) is None  # at once: no file lies so deep
    assert files.find("b/" * 60_000 + "a/7.png") == "a/7.png"
