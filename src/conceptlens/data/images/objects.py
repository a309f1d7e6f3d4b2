"""One image that is already in memory (a PIL image, an array, a tensor) or named by its path, as upright RGB."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from conceptlens.core.errors import UserError
from conceptlens.data.images.read import open_image
from conceptlens.data.images.window import Window

EXPECTED = (
    "a path, a PIL image, or an array or tensor (H, W, 3), (3, H, W) or (H, W) of bytes or of numbers from 0 to 1"
)


def as_image(item: Any, *, name: str, at_least: int | None = None, window: Window = "file") -> Image.Image:
    """The image as RGB, upright.

    Args:
        item: A path, a PIL image, or an array or tensor of bytes or of numbers from 0 to 1.
        name: What to call it in an error.
        at_least: As for `open_image`.
        window: As for `open_image`.

    Raises:
        UserError: It is none of these, or cannot be read.
    """
    if isinstance(item, str | Path):
        return open_image(Path(item), name=name, at_least=at_least, window=window)
    if isinstance(item, Image.Image):
        return item.convert("RGB")
    return Image.fromarray(as_pixels(item, name=name))


def as_pixels(item: Any, *, name: str) -> npt.NDArray[np.uint8]:
    """An array or tensor as bytes (H, W, 3)."""
    try:
        array = np.asarray(item.detach().cpu() if hasattr(item, "detach") else item)
    except (TypeError, ValueError):
        raise UserError(f"{name}: expected {EXPECTED}, found {type(item).__name__}.") from None
    if array.ndim == 2:
        array = np.repeat(array[..., None], 3, axis=2)
    if array.ndim == 3 and array.shape[0] in (1, 3) and array.shape[2] not in (1, 3):
        array = array.transpose(1, 2, 0)
    if array.ndim == 3 and array.shape[2] == 1:
        array = np.repeat(array, 3, axis=2)
    if array.ndim != 3 or array.shape[2] != 3 or not array.size:
        raise UserError(f"{name}: expected {EXPECTED}, found {type(item).__name__} of shape {tuple(array.shape)}.")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    if array.dtype == bool or np.issubdtype(array.dtype, np.floating):
        values = array.astype(np.float64)
        if not np.isfinite(values).all() or values.min() < 0 or values.max() > 1:
            raise UserError(
                f"{name}: expected numbers from 0 to 1, found {np.nanmin(values):.4g} to {np.nanmax(values):.4g}. Pass "
                "pixels before any normalization; the model does its own."
            )
        return np.ascontiguousarray((values * 255).round().astype(np.uint8))
    if np.issubdtype(array.dtype, np.integer) and array.min() >= 0 and array.max() <= 255:
        return np.ascontiguousarray(array.astype(np.uint8))
    raise UserError(f"{name}: expected bytes or numbers from 0 to 1, found {array.dtype}.")
