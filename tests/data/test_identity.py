"""What may name a patient is warned of: header fields and burned-in letters."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from conceptlens.data.checks.identity import has_letters, header_fields


def picture(text: str = "", size: int = 18, seed: int = 0) -> Image.Image:
    smooth = np.random.default_rng(seed).integers(0, 120, (12, 16, 3), dtype=np.uint8)
    image = Image.fromarray(smooth).resize((480, 360), Image.Resampling.BICUBIC)
    if text:
        ImageDraw.Draw(image).text((20, 16), text, fill="white", font=ImageFont.load_default(size))
    return image


@pytest.mark.parametrize("size", [12, 18, 32])
def test_print_is_found(size: int) -> None:
    assert has_letters(picture("DOE JOHN 1961-04-02", size))


def test_pictures_are_no_print() -> None:
    assert not any(has_letters(picture(seed=seed)) for seed in range(5))
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), dtype=np.uint8)
    assert not has_letters(Image.fromarray(noise))
    assert not has_letters(picture("A  B"))  # a mark or two, as R and L on an X-ray
    assert not has_letters(Image.new("RGB", (100, 100), "white"))


def test_fields_in_headers(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x013B] = "Dr. Who"
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg", exif=exif)
    Image.new("RGB", (8, 8)).save(tmp_path / "b.jpg")
    (tmp_path / "c.jpg").write_bytes(b"broken")
    assert header_fields(tmp_path / "a.jpg") == ["artist"]
    assert header_fields(tmp_path / "b.jpg") == header_fields(tmp_path / "c.jpg") == []


def test_dicom_fields(tmp_path: Path) -> None:
    pytest.importorskip("pydicom")
    from tests.data.images.test_dicom import dicom

    pixels = np.zeros((4, 4), np.uint8)
    tags = {"PatientName": "Doe^John", "PatientBirthDate": "", "BurnedInAnnotation": "YES"}
    (tmp_path / "a.dcm").write_bytes(dicom(pixels, **tags))
    (tmp_path / "b.dcm").write_bytes(dicom(pixels, BurnedInAnnotation="NO"))
    assert header_fields(tmp_path / "a.dcm") == ["PatientName", "BurnedInAnnotation"]
    assert header_fields(tmp_path / "b.dcm") == []


def test_a_table_names_frames(tmp_path: Path) -> None:
    from conceptlens.concepts import ConceptSet
    from conceptlens.core.errors import UserError
    from conceptlens.data.sources.open import open_source
    from conceptlens.recipes.schema import DataConfig

    pages = [Image.new("RGB", (8, 8), (level, 0, 0)) for level in (10, 20, 30)]
    pages[0].save(tmp_path / "scan.tif", save_all=True, append_images=pages[1:])
    (tmp_path / "t.csv").write_text("image,class\nscan.tif#1,a\nscan.tif#3,b\nscan.tif#9,b\n")
    source, _ = open_source(DataConfig(str(tmp_path / "t.csv")), ConceptSet.none())
    assert [source.read(index).getpixel((0, 0))[0] for index in (0, 1)] == [10, 30]  # type: ignore[index]
    with pytest.raises(UserError, match="frame 9 was asked for, but the file has 3"):
        source.read(2)
