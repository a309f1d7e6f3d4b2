"""A few images that stand for all."""

import numpy as np
import numpy.typing as npt

REFERENCE = 128  # images that stand for all


def spread(indices: npt.NDArray[np.int64], most: int = REFERENCE) -> npt.NDArray[np.int64]:
    """Some of the indices, evenly spread."""
    return indices[np.linspace(0, len(indices) - 1, min(most, len(indices))).round().astype(np.int64)]
