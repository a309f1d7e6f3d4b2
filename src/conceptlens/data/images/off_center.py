"""A cell cut out by its mask and pasted at a random place: data in which position does not give the object away.

The background is another image's, its own cell covered by a shifted copy of its surroundings; its brightness is brought
to that of the cell's image, and edges are soft. Everything is drawn from the image's name: always the same picture.
"""

import zlib
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage

Labels = npt.NDArray[np.uint8]  # (H, W): 0 elsewhere, 1 cytoplasm, 2 nucleus
Floats = npt.NDArray[np.float64]
Donor = Callable[[int], tuple[Image.Image, Labels]]
REGIONS = ("object", "nucleus", "cytoplasm")
CANVAS = 4 / 3  # side of the canvas relative to the image: even a large cell can lie off center
SHIFTS = 16  # directions in which a cover for the donor's cell is looked for


def region_masks(labels: Labels) -> dict[str, npt.NDArray[np.bool_]]:
    """The parts that a label map shows."""
    masks = dict(zip(REGIONS, (labels > 0, labels == 2, labels == 1), strict=True))
    return {part: mask for part, mask in masks.items() if mask.any()}


def small_cells(maps: Sequence[Labels]) -> list[int]:
    """Positions of the label maps whose cell is not larger than the median: good backgrounds, much of them is seen."""
    sizes = np.array([np.count_nonzero(labels) for labels in maps])
    return np.flatnonzero((sizes > 0) & (sizes <= np.median(sizes))).tolist()


def paste_off_center(
    name: str, image: Image.Image, labels: Labels, donor: Donor, donors: int
) -> tuple[Image.Image, Labels]:
    """The picture and its label map, `CANVAS` times as large.

    Args:
        name: Of the image: the seed.
        image: Whose cell is pasted.
        labels: Its label map; it must show a cell.
        donor: Position → an image for the background and its label map.
        donors: How many there are.
    """
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    pixels = np.asarray(image, dtype=float)
    other, theirs = donor(int(rng.integers(donors)))
    ground = _without_cell(np.asarray(other, dtype=float), theirs > 0)
    ground *= _plasma(pixels) / _plasma(ground)
    side = round(max(pixels.shape[:2]) * CANVAS)
    canvas = _grown(ground, side)
    if rng.random() < 0.5:
        canvas = canvas[:, ::-1]
    canvas = np.rot90(canvas, int(rng.integers(4))).copy()
    rows, columns = np.flatnonzero(labels.any(1)), np.flatnonzero(labels.any(0))
    top, left = max(rows[0] - 2, 0), max(columns[0] - 2, 0)
    bottom, right = min(rows[-1] + 3, labels.shape[0]), min(columns[-1] + 3, labels.shape[1])
    cut = (slice(top, bottom), slice(left, right))
    y, x = int(rng.integers(side - (bottom - top) + 1)), int(rng.integers(side - (right - left) + 1))
    place = (slice(y, y + bottom - top), slice(x, x + right - left))
    alpha = _soft(labels[cut] > 0)
    canvas[place] += alpha * (pixels[cut] - canvas[place])
    moved = np.zeros((side, side), dtype=np.uint8)
    moved[place] = labels[cut]
    return Image.fromarray(np.clip(canvas, 0, 255).round().astype(np.uint8)), moved


def _soft(mask: npt.NDArray[np.bool_], blur: float = 0.8) -> Floats:
    """A mask with a soft edge, (H, W, 1)."""
    return np.asarray(ndimage.gaussian_filter(mask.astype(float), blur))[..., None]


def _plasma(pixels: Floats) -> Floats:
    """The color between the cells, which is the brightest there is."""
    return np.maximum(np.percentile(pixels.reshape(-1, 3), 90, axis=0), 1)


def _grown(pixels: Floats, side: int) -> Floats:
    """Mirrored beyond its edges to a square of that side."""
    h, w = pixels.shape[:2]
    top, left = (side - h) // 2, (side - w) // 2
    return np.pad(pixels, ((top, side - h - top), (left, side - w - left), (0, 0)), mode="reflect")


def _without_cell(pixels: Floats, cell: npt.NDArray[np.bool_]) -> Floats:
    """The image with its cell covered by a copy of itself, shifted to where it fits best around the hole."""
    hole = ndimage.binary_dilation(cell, iterations=3)
    rim = ndimage.binary_dilation(hole, iterations=3) & ~hole
    rows, columns = np.flatnonzero(hole.any(1)), np.flatnonzero(hole.any(0))
    reach = int(max(np.ptp(rows), np.ptp(columns))) + 1
    wide = np.pad(np.where(hole[..., None], np.nan, pixels), ((reach, reach), (reach, reach), (0, 0)), mode="reflect")
    h, w = hole.shape
    best, cover = np.inf, pixels
    for angle in np.linspace(0, 2 * np.pi, SHIFTS, endpoint=False):
        # The farthest of the two axes moves by the whole hole, so that the copy is free of the cell.
        step = np.array([np.sin(angle), np.cos(angle)])
        dy, dx = np.round(step / np.abs(step).max() * reach).astype(int)
        shifted = wide[reach + dy : reach + dy + h, reach + dx : reach + dx + w]
        if np.isnan(shifted[hole | rim]).any():
            continue
        misfit = float(np.mean((shifted[rim] - pixels[rim]) ** 2))
        if misfit < best:
            best, cover = misfit, np.where(np.isnan(shifted), pixels, shifted)
    alpha = _soft(hole, 1.5)
    covered = pixels + alpha * (cover - pixels)
    if best == np.inf:  # no copy is free of the cell: plasma
        covered = pixels + _soft(hole, 1.5) * (_plasma(pixels) - pixels)
    return np.asarray(covered)
