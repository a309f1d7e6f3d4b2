"""Many small images in one WebP: no header per image, and each tile a whole number of the codec's 16-pixel blocks."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from conceptlens.core.errors import UserError

Pixels = npt.NDArray[np.uint8]


def read_square(path: Path, side: int) -> Pixels:
    """An image file as (side, side, 3): its largest centred square, resized; untouched if it has that size."""
    try:
        with Image.open(path) as opened:
            image = opened.convert("RGB")
    except (OSError, UnidentifiedImageError) as error:
        raise UserError(f"{path}: cannot be read as an image ({error}). Unpack the set again.") from None
    if image.size != (side, side):
        width, height = image.size
        edge = min(width, height)
        left, top = (width - edge) / 2, (height - edge) / 2
        image = image.resize((side, side), Image.Resampling.LANCZOS, box=(left, top, left + edge, top + edge))
    return np.asarray(image)


def lay_out(images: Sequence[Pixels], columns: int) -> Pixels:
    """Tiles row by row, (rows * side, columns * side, 3); the last row may end in black tiles."""
    side = images[0].shape[0]
    rows = -(-len(images) // columns)
    tiles = np.zeros((rows * columns, side, side, 3), np.uint8)
    tiles[: len(images)] = images
    return tiles.reshape(rows, columns, side, side, 3).swapaxes(1, 2).reshape(rows * side, columns * side, 3)


def cut(sheet: Pixels, side: int, count: int) -> Pixels:
    """The first `count` tiles of a sheet, (count, 3, side, side): `lay_out` undone, channels first."""
    rows, columns = sheet.shape[0] // side, sheet.shape[1] // side
    tiles = sheet.reshape(rows, side, columns, side, 3).transpose(0, 2, 4, 1, 3)
    return tiles.reshape(rows * columns, 3, side, side)[:count]


def encode(sheet: Pixels, quality: int) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(sheet).save(buffer, "WEBP", quality=quality, method=4)
    return buffer.getvalue()


def decode(data: bytes) -> Pixels:
    with Image.open(io.BytesIO(data), formats=["WEBP"]) as opened:
        return np.array(opened.convert("RGB"))
