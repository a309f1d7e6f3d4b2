"""Where each part is in each image, as one point on a model's grid: its marked point, or the middle of its mask or "
"box."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from conceptlens.data.dataset import Annotation, DataSource
from conceptlens.data.images.framing import Frame, cover_of_box, cover_of_mask, frame_of
from conceptlens.data.images.read import Fit
from conceptlens.data.regions.regions import Grid, Indices


def read_points(
    source: DataSource, indices: Indices, parts: Sequence[str], *, size: int, fit: Fit, grid: Grid
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Row and column of each part in cells, (N, P, 2), zero where it is not seen; and whether it is, (N, P).

    The same places as `read_regions` has, without the maps: a part that is marked but out of the model's view is not
    seen.
    """
    points = np.zeros((len(indices), len(parts), 2), dtype=np.float32)
    seen = np.zeros((len(indices), len(parts)), dtype=bool)
    for row, index in enumerate(indices.tolist()):
        annotation = source.annotation(index)
        if annotation is None:
            continue
        width, height = annotation.size or source.read(index).size
        frame = frame_of(width, height, size, fit)
        for column, part in enumerate(parts):
            place = _point(annotation, part, frame, grid)
            if place is not None:
                points[row, column], seen[row, column] = place, True
    return points, seen


def _point(annotation: Annotation, part: str, frame: Frame, grid: Grid) -> tuple[float, float] | None:
    if part in annotation.keypoints:
        u, v = frame.to_square(annotation.keypoints[part]).tolist()
        return (v * grid[0], u * grid[1]) if 0 <= u <= 1 and 0 <= v <= 1 else None
    if part in annotation.masks:
        cover = cover_of_mask(annotation.masks[part], frame, grid)
    elif part in annotation.boxes:
        cover = cover_of_box(annotation.boxes[part], frame, grid)
    else:
        return None
    total = float(cover.sum())
    if total <= 0:
        return None
    rows, columns = np.arange(grid[0]) + 0.5, np.arange(grid[1]) + 0.5
    return float(cover.sum(1) @ rows) / total, float(cover.sum(0) @ columns) / total
