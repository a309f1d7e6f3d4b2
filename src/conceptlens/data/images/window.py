"""Gray of many levels to 8 bits: which values become black and which white."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import UserError

# `file`: the window that the file names (DICOM does), else as `range`. `range`: the image's smallest to its largest
# value. `percentile`: its 1st to its 99th percentile. Two numbers: these, in the file's own units.
Window = Literal["file", "range", "percentile"] | tuple[float, float]
PERCENTILES = (1.0, 99.0)


def spread(values: npt.NDArray[np.float64], window: Window, *, name: str) -> npt.NDArray[np.uint8]:
    """Values (H, W) to bytes: the window's lower end becomes 0, its upper end 255, what lies outside is cut.

    A flat image becomes black under its own window. What is no number becomes the smallest value. `values` is used up:
    images are large.
    """
    finite = np.isfinite(values)
    if not finite.all():
        if not finite.any():
            raise UserError(f"{name}: none of its pixels is a number.")
        lowest, highest = values[finite].min(), values[finite].max()
        np.nan_to_num(values, copy=False, nan=lowest, posinf=highest, neginf=lowest)
    if isinstance(window, tuple | list):
        low, high = window
    elif window == "percentile":
        low, high = np.percentile(values, PERCENTILES)
    else:
        low, high = values.min(), values.max()
    values -= low
    values *= 255.0 / max(high - low, 1e-30)
    np.clip(values, 0.0, 255.0, out=values)
    return np.rint(values, out=values).astype(np.uint8)
