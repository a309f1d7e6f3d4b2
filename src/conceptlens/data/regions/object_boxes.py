"""The object's box on a model's grid: what a gate is taught where boxes are all that is known of the object."""

import numpy as np
import numpy.typing as npt

from conceptlens.data.dataset import DataSource
from conceptlens.data.images.framing import cover_of_box, frame_of
from conceptlens.data.images.read import Fit
from conceptlens.data.regions.regions import Grid, Indices, object_box


def read_boxes(
    source: DataSource, indices: Indices, *, size: int, fit: Fit, grid: Grid
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """How far the object's box covers each cell, (N, L), and of which images that is known, (N,)."""
    cover = np.zeros((len(indices), grid[0] * grid[1]), dtype=np.float32)
    known = np.zeros(len(indices), dtype=bool)
    for row, index in enumerate(indices.tolist()):
        annotation = source.annotation(index)
        box = object_box(annotation) if annotation is not None else None
        if annotation is not None and box is not None:
            width, height = annotation.size or source.read(index).size
            cover[row] = cover_of_box(box, frame_of(width, height, size, fit), grid).ravel()
            known[row] = True
    return cover, known
