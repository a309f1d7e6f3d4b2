"""JPEGs by libjpeg-turbo directly (`simplejpeg`), where it is installed: the same pixels in half the time.

Only plain color photographs go this way: whatever Pillow would treat in its own manner (Exif, CMYK, several pictures,
decoding at a part of the size, damage) is left to it. Libraries may round differently from version to version, so a
picture is decoded by both before the first one is trusted.
"""

import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

START = b"\xff\xd8\xff"
SPECIAL = (b"Exif\x00", b"tiff:Orientation", b"MPF\x00")  # may turn the picture, or bring further ones
LARGEST = 2**24  # pixels; larger ones are few, and Pillow looks at their size first


def decode_jpeg(source: Path | bytes, at_least: int) -> npt.NDArray[np.uint8] | None:
    """A plain JPEG as RGB (H, W, 3); None: ask Pillow.

    Args:
        source: The file or its bytes.
        at_least: As in `open_image`.
    """
    if (turbo := _library()) is None:
        return None
    try:
        if isinstance(source, Path):
            # A pipe would be waited for, a device has no end: Pillow's reader refuses them.
            if not source.is_file() or source.suffix.lower() not in (".jpg", ".jpeg"):
                return None
            if source.stat().st_size > 4 * LARGEST:
                return None
            source = source.read_bytes()
        if not source.startswith(START) or any(mark in source for mark in SPECIAL):
            return None
        height, width, colors, _ = turbo.decode_jpeg_header(source)
        # From four times the size on, Pillow decodes at a half.
        if colors != "YCbCr" or min(height, width) >= 4 * at_least or height * width > LARGEST:
            return None
        pixels: npt.NDArray[np.uint8] = turbo.decode_jpeg(source)
        return pixels
    except (OSError, ValueError):  # missing, damaged: Pillow says how
        return None


@cache
def _library() -> Any:
    """The module, if it is installed and gives Pillow's pixels."""
    try:
        import simplejpeg
    except ImportError:
        return None
    noise = np.random.default_rng(0).integers(0, 256, (47, 61, 3), np.uint8)
    for subsampling in (0, 1, 2):
        file = io.BytesIO()
        Image.fromarray(noise).save(file, "JPEG", quality=80, subsampling=subsampling)
        try:
            found = simplejpeg.decode_jpeg(file.getvalue())
        except ValueError:
            return None
        with Image.open(file) as image:
            if not np.array_equal(found, np.asarray(image)):
                return None
    return simplejpeg
