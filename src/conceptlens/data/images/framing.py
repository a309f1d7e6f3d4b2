"""How an image becomes the square that a model sees, as arithmetic: what `resize_square` does to places.

A frame maps pixels (x, y) of the upright image to the unit square by u = s_x·x + t_x and v = s_y·y + t_y. Regions and
maps meet on a grid of h × w cells over that square.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conceptlens.data.images.read import Fit

Floats = npt.NDArray[np.float64]
Box = tuple[float, float, float, float]  # x0, y0, x1, y1


@dataclass(frozen=True)
class Frame:
    """An image's place in the unit square; with `crop` it reaches beyond."""

    scale: tuple[float, float]  # of the square's side, for a pixel in x and in y
    shift: tuple[float, float]  # where the image's left and top edges lie

    def to_square(self, points: npt.ArrayLike) -> Floats:
        """Pixels (…, 2) as (x, y) → places (…, 2) in the unit square."""
        return np.asarray(np.asarray(points, dtype=np.float64) * self.scale + self.shift)


def frame_of(width: int, height: int, size: int, fit: Fit) -> Frame:
    """The frame of an image of that size, as `resize_square(image, size, fit)` makes it square."""
    if width == height or fit == "squash":
        return Frame((1 / width, 1 / height), (0.0, 0.0))
    if fit == "crop":
        side = min(width, height)
        return Frame((1 / side, 1 / side), ((side - width) / 2 / side, (side - height) / 2 / side))
    scale = size / max(width, height)
    inner = (max(1, round(width * scale)), max(1, round(height * scale)))
    border = ((size - inner[0]) // 2, (size - inner[1]) // 2)
    return Frame((inner[0] / size / width, inner[1] / size / height), (border[0] / size, border[1] / size))


def cell_shares(low: npt.ArrayLike, high: npt.ArrayLike, cells: int) -> Floats:
    """How much of each of `cells` equal cells of [0, 1] the intervals (n,) from low to high cover, (cells, n)."""
    edges = np.arange(cells)[:, None]
    first, last = np.asarray(low, dtype=np.float64) * cells, np.asarray(high, dtype=np.float64) * cells
    return np.asarray(np.clip(np.minimum(last, edges + 1) - np.maximum(first, edges), 0.0, None))


def cover_of_mask(mask: npt.NDArray[np.bool_], frame: Frame, grid: tuple[int, int]) -> Floats:
    """The share of each cell (h, w) that a mask (H, W) covers, exactly: the frame is that of the mask's own pixels."""
    x, y = (frame.scale[axis] * np.arange(mask.shape[1 - axis] + 1) + frame.shift[axis] for axis in (0, 1))
    down, across = cell_shares(y[:-1], y[1:], grid[0]), cell_shares(x[:-1], x[1:], grid[1])
    return np.asarray(down @ mask.astype(np.float64) @ across.T)


def cover_of_box(box: Box, frame: Frame, grid: tuple[int, int]) -> Floats:
    """The share of each cell (h, w) that a box x0, y0, x1, y1 in pixels covers, exactly."""
    (left, top), (right, bottom) = frame.to_square([box[:2], box[2:]])
    return np.asarray(cell_shares([top], [bottom], grid[0]) @ cell_shares([left], [right], grid[1]).T)


def cover_of_disc(
    center: tuple[float, float], radius: float, frame: Frame, grid: tuple[int, int], fine: int = 8
) -> Floats:
    """The share of each cell (h, w) that a disc in pixels covers, counted at `fine` × `fine` places of each cell."""
    x, y = (
        ((np.arange(cells * fine) + 0.5) / (cells * fine) - frame.shift[axis]) / frame.scale[axis]
        for axis, cells in ((0, grid[1]), (1, grid[0]))
    )
    inside = (y[:, None] - center[1]) ** 2 + (x[None, :] - center[0]) ** 2 <= radius**2
    return np.asarray(inside.reshape(grid[0], fine, grid[1], fine).mean(axis=(1, 3)))


def enclosing_box(boxes: Iterable[Box]) -> Box:
    """The smallest box around one or more."""
    edges = list(boxes)
    return (
        min(edge[0] for edge in edges),
        min(edge[1] for edge in edges),
        max(edge[2] for edge in edges),
        max(edge[3] for edge in edges),
    )
