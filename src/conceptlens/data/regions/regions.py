"""Regions as a map sees them: how far the object and its parts cover each cell of the grid, and how far away they are.

The geometry is that of evaluation (`framing`), so that cell l of a map and cell l of a region are the same place. What
a part is, in this order: its mask, its box, a disc around its point whose radius is a tenth of the object's longer side
(`TENTH`; one cell where the object is not known). How far a cell is from a part is measured to its point if it has one,
else to the nearest cell that it covers.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt

from conceptlens.core.errors import UserError
from conceptlens.data.dataset import Annotation, DataSource
from conceptlens.data.images.framing import (
    Box,
    Frame,
    cover_of_box,
    cover_of_disc,
    cover_of_mask,
    enclosing_box,
    frame_of,
)
from conceptlens.data.images.read import Fit
from conceptlens.data.regions.tables import OBJECT

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Grid = tuple[int, int]
TENTH = 0.1
SPECK = 1 / 64  # of a cell


@dataclass(frozen=True)
class Regions:
    """Where R parts are in N images, on a grid of L = h · w cells, row by row."""

    parts: tuple[str, ...]  # (R,), `object` first
    grid: Grid
    seen: npt.NDArray[np.bool_]  # (N, R): known and within the model's view; else the rows below are zero or NaN
    cover: npt.NDArray[np.float32]  # (N, R, L): the share of each cell that the part covers
    on: npt.NDArray[np.bool_]  # (N, R, L): the cell of its point, or the cells it covers
    gap: npt.NDArray[np.float32]  # (N, R, L): from a cell's center to the part, in cells
    gap_object: npt.NDArray[np.float32]  # (N, R, L): the same in longer sides of the object's box, in image pixels
    center: npt.NDArray[np.float32]  # (N, R, 2): its point or centroid as (x, y), in cells
    pixels: npt.NDArray[np.float32]  # (N, 2): image pixels for a cell in x and y, relative to the object's longer side

    def __len__(self) -> int:
        return len(self.seen)


def read_regions(source: DataSource, indices: Indices, *, size: int, fit: Fit, grid: Grid) -> Regions:
    """The regions of some images of a source.

    Args:
        source: Images that know where things are.
        indices: (N,) their positions.
        size: The side of the square that the model sees, in pixels.
        fit: How an image becomes that square.
        grid: Cells of the maps, (h, w).
    """
    regions = _nowhere(region_names(source), len(indices), grid)
    for row, index in enumerate(indices.tolist()):
        annotation = source.annotation(index)
        if annotation is not None:
            width, height = annotation.size or source.read(index).size
            _fill(regions, row, annotation, frame_of(width, height, size, fit))
    return regions


class NoRegions(UserError):
    """The data does not say where anything is."""


def region_names(source: DataSource) -> tuple[str, ...]:
    """`object`, then the parts that a source knows."""
    names = source.region_names
    if not names:
        raise NoRegions(
            f"{source.name}: nothing is known of where things are in these images. Name boxes, points or masks in "
            "data.regions of the recipe, or with --data.regions.masks FOLDER and the like."
        )
    return (OBJECT, *(name for name in names if name != OBJECT))


def _nowhere(parts: tuple[str, ...], n: int, grid: Grid) -> Regions:
    """Regions of images of which nothing is known."""
    shape = (n, len(parts), grid[0] * grid[1])

    def unknown(*shape: int) -> npt.NDArray[np.float32]:
        return np.full(shape, np.nan, dtype=np.float32)

    return Regions(
        parts,
        grid,
        seen=np.zeros(shape[:2], dtype=bool),
        cover=np.zeros(shape, dtype=np.float32),
        on=np.zeros(shape, dtype=bool),
        gap=unknown(*shape),
        gap_object=unknown(*shape),
        center=unknown(*shape[:2], 2),
        pixels=unknown(n, 2),
    )


def _fill(regions: Regions, row: int, annotation: Annotation, frame: Frame) -> None:
    """Write what is known of one image into its row."""
    h, w = regions.grid
    cell = np.array([1 / w / frame.scale[0], 1 / h / frame.scale[1]])  # image pixels in x and y
    box = object_box(annotation)
    longer = max(box[2] - box[0], box[3] - box[1]) if box else 0.0
    side = longer if longer > 0 else np.nan
    radius = TENTH * longer if longer > 0 else float(cell.max())
    regions.pixels[row] = cell / side
    x, y = np.arange(w) + 0.5, np.arange(h) + 0.5
    for part, name in enumerate(regions.parts):
        cover, point = _place(annotation, name, frame, regions.grid, radius)
        if not cover.any():
            continue
        at = (row, part)
        regions.seen[at], regions.cover[at] = True, cover.ravel()
        if point is None:
            covered = cover > 0
            regions.center[at] = (cover.sum(0) @ x / cover.sum(), cover.sum(1) @ y / cover.sum())
            regions.on[at] = covered.ravel()
            regions.gap[at] = distance_transform_edt(~covered).ravel()
            far = distance_transform_edt(~covered, sampling=(cell[1], cell[0]))
        else:
            across, down = x[None, :] - point[0], y[:, None] - point[1]
            regions.center[at] = point
            regions.on[row, part, int(point[1]) * w + int(point[0])] = True
            regions.gap[at] = np.hypot(across, down).ravel()
            far = np.hypot(across * cell[0], down * cell[1])
        regions.gap_object[at] = far.ravel() / side


def _place(
    annotation: Annotation, name: str, frame: Frame, grid: Grid, radius: float
) -> tuple[Floats, tuple[float, float] | None]:
    """A part's cover (h, w), zero where it is not known or out of view, and its point in cells, if it has one."""
    point, mask, box = annotation.keypoints.get(name), annotation.masks.get(name), annotation.boxes.get(name)
    at = None
    if point is not None:
        u, v = frame.to_square(point).tolist()
        if 0 <= u <= 1 and 0 <= v <= 1:  # a point on the far edge belongs to the last cell
            at = (min(u * grid[1], grid[1] - 1e-6), min(v * grid[0], grid[0] - 1e-6))
    if name == OBJECT and mask is None and box is None and point is None:
        if annotation.masks:
            mask = np.logical_or.reduce(list(annotation.masks.values()))
        else:
            box = object_box(annotation)
    if mask is not None:
        return cover_of_mask(mask, frame, grid), at
    if box is not None:
        return cover_of_box(box, frame, grid), at
    if point is None or at is None:
        return np.zeros(grid), None
    cover = cover_of_disc(point, radius, frame, grid)
    if not cover.any():  # smaller than the places that are counted
        cover[int(at[1]), int(at[0])] = SPECK
    return cover, at


def object_box(annotation: Annotation) -> Box | None:
    """The object's box in pixels: as given, around its mask, or around all parts; None where nothing is known."""
    if OBJECT in annotation.boxes:
        return annotation.boxes[OBJECT]
    if OBJECT in annotation.masks:
        return mask_box(annotation.masks[OBJECT])
    edges = [box for mask in annotation.masks.values() if (box := mask_box(mask))]
    edges += [*annotation.boxes.values(), *((x, y, x, y) for x, y in annotation.keypoints.values())]
    return enclosing_box(edges) if edges else None


def mask_box(mask: npt.NDArray[np.bool_]) -> Box | None:
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if not len(rows):
        return None
    return float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)
