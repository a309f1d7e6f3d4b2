"""Bird boxes as shares of their image, and how much of each cell of a grid they cover."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from pretraining.probe.sets import Places, read_table

Floats = npt.NDArray[np.float64]


def read_boxes(places: Places) -> Floats:
    """(N, 4): left, top, right, bottom from 0 to 1, in the order of the set's images.

    Boxes are given in pixels of the original images, of which the images at hand are smaller copies.
    """
    lines = (places["cub"] / "bounding_boxes.txt").read_text("utf-8").splitlines()
    boxes = np.array([line.split()[1:] for line in lines if line.strip()], dtype=np.float64)
    rows = read_table(places["cub-sizes"])
    if len(rows) != len(boxes):
        raise UserError(f"{places['cub-sizes']}: {len(rows)} sizes for {len(boxes)} boxes; one a box is expected.")
    size = np.array([(row["width"], row["height"]) for row in rows], dtype=np.float64)
    start, extent = boxes[:, :2] / size, boxes[:, 2:] / size
    shares: Floats = np.clip(np.concatenate([start, start + extent], axis=1), 0.0, 1.0)
    return shares


def coverage(boxes: Floats, grid: tuple[int, int]) -> Tensor:
    """The share of each cell that a box covers, (N, h, w): exact, so that no pixel raster enters the overlap."""

    def overlap(low: Floats, high: Floats, cells: int) -> Floats:
        edges = np.arange(cells + 1) / cells
        length = np.minimum(high[:, None], edges[1:]) - np.maximum(low[:, None], edges[:-1])
        share: Floats = np.clip(length, 0, None) * cells
        return share

    across, down = overlap(boxes[:, 0], boxes[:, 2], grid[1]), overlap(boxes[:, 1], boxes[:, 3], grid[0])
    return torch.from_numpy(down[:, :, None] * across[:, None, :])


def overlap_with_box(masks: Tensor, covered: Tensor) -> Tensor:
    """Intersection over union of masks (N, h, w) of whole cells with boxes, by area; 0 for an empty mask."""
    chosen = masks.to(covered.dtype)
    shared = (chosen * covered).sum((1, 2))
    union = (chosen + covered - chosen * covered).sum((1, 2))
    return shared / union.clamp(min=1e-12)


def centered_boxes(boxes: Floats, like: Sequence[int]) -> Floats:
    """For every box one in the middle of its image, of the mean width and height of the boxes `like`."""
    extent = (boxes[like, 2:] - boxes[like, :2]).mean(0)
    return np.tile(np.concatenate([0.5 - extent / 2, 0.5 + extent / 2]), (len(boxes), 1))


def box_overlap(first: Floats, second: Floats) -> Floats:
    """Intersection over union of two boxes each, (N, 4) and (N, 4)."""
    extent = np.clip(np.minimum(first[:, 2:], second[:, 2:]) - np.maximum(first[:, :2], second[:, :2]), 0, None)
    shared = extent.prod(1)
    areas = (first[:, 2:] - first[:, :2]).prod(1) + (second[:, 2:] - second[:, :2]).prod(1)
    overlap: Floats = shared / (areas - shared)
    return overlap
