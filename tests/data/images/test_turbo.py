"""JPEGs by libjpeg-turbo: Pillow's pixels, and only for pictures that both read alike."""

import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.data.images import turbo
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources.open import open_source
from conceptlens.recipes.schema import DataConfig


def jpeg(mode: str = "RGB", size: tuple[int, int] = (40, 30), **options: Any) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, "JPEG", **options)
    return buffer.getvalue()


def by_pillow(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def header(data: bytes) -> tuple[int, int, str, str]:
    with Image.open(io.BytesIO(data)) as image:
        return image.height, image.width, "YCbCr" if image.mode == "RGB" else image.mode, ""


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stands in for simplejpeg, which need not be installed; counts what it decodes."""
    library = SimpleNamespace(decode_jpeg_header=header, decoded=0)

    def decode_jpeg(data: bytes) -> np.ndarray:
        library.decoded += 1
        return by_pillow(data)

    library.decode_jpeg = decode_jpeg
    monkeypatch.setattr(turbo, "_library", lambda: library)
    return library


def test_only_plain_color_photographs_go_this_way(library: SimpleNamespace, tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    png = io.BytesIO()
    Image.new("RGB", (40, 30)).save(png, "PNG")
    left = (
        jpeg("L"),
        jpeg("CMYK"),
        jpeg(exif=turned),
        png.getvalue(),
        b"",
        b"\xff\xd8\xff broken",
        tmp_path / "no.jpg",
    )
    for source in left:
        assert turbo.decode_jpeg(source, 20) is None
    assert turbo.decode_jpeg(jpeg(size=(200, 100)), 25) is None  # Pillow decodes at a half
    assert not library.decoded
    data = jpeg()
    (tmp_path / "yes.jpg").write_bytes(data)
    for source in (data, tmp_path / "yes.jpg"):
        assert np.array_equal(turbo.decode_jpeg(source, 20), by_pillow(data))


def test_a_reader_gives_the_same_bytes(
    library: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jpg").write_bytes(jpeg(size=(32, 32)))
        (tmp_path / name / "2.jpg").write_bytes(jpeg(size=(50, 40)))
        (tmp_path / name / "3.jpg").write_bytes(jpeg("L"))
    source, _ = open_source(
        DataConfig(source=str(tmp_path)), ConceptSet.from_yaml("groups: {size: {values: [big, small]}}")
    )
    rows = np.arange(6)
    with PixelReader(source, 32, "crop", cache_mb=0) as reader:
        fast = reader.batch(rows)
        assert library.decoded == 4
        monkeypatch.setattr(turbo, "_library", lambda: None)
        assert bool((reader.batch(rows) == fast).all())


def test_a_library_that_rounds_otherwise_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    other = SimpleNamespace(decode_jpeg=lambda data: by_pillow(data) ^ 1)
    monkeypatch.setitem(__import__("sys").modules, "simplejpeg", other)
    turbo._library.cache_clear()
    try:
        assert turbo._library() is None
    finally:
        turbo._library.cache_clear()


def test_simplejpeg_gives_the_pixels_of_pillow() -> None:
    pytest.importorskip("simplejpeg")
    turbo._library.cache_clear()
    for subsampling in (0, 1, 2):
        data = jpeg(subsampling=subsampling, quality=70)
        assert np.array_equal(turbo.decode_jpeg(data, 20), by_pillow(data))
    assert turbo.decode_jpeg(jpeg()[:-200], 20) is None  # cut short: Pillow says so


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_left_to_the_reader_that_refuses_it(library: SimpleNamespace, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    assert turbo.decode_jpeg(tmp_path / "pipe.jpg", 20) is None
