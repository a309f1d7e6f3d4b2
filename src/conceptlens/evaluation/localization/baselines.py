"""Image-free maps: baselines that do not look at the image.

- uniform: the same everywhere (maps of ones);
- center_prior: a Gaussian in the middle of the image, where photographs show their object. Its width is that of the
  regions of other images: the most likely σ of an isotropic Gaussian in the middle, σ² = mean ‖place − middle‖² / 2
  over their area;
- central_cell: the cell, or cells, in the very middle;
- mean_region: the mean region of other images, cell by cell: the best guess without the image;
- mean_cell: the one cell that those regions cover most. Energy is linear in a map, so no image-free map puts more mass
  into regions of the same kind.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.data.regions.regions import Regions

Floats = npt.NDArray[np.float64]


def fit_center_prior(regions: Regions) -> dict[str, float]:
    """σ for each part that is seen, in sides of the square that the model sees; every image counts the same."""
    h, w = regions.grid
    x, y = (np.arange(w) + 0.5) / w - 0.5, (np.arange(h) + 0.5) / h - 0.5
    # Within a cell, mass is spread: a uniform cell adds (1/w² + 1/h²) / 12.
    square = ((y[:, None] ** 2 + x[None, :] ** 2) + (1 / w**2 + 1 / h**2) / 12).ravel()
    cover = regions.cover.astype(np.float64)
    area = cover.sum(-1)
    found = {}
    for row, part in enumerate(regions.parts):
        known = regions.seen[:, row]
        if known.any():
            spread = (cover[known, row] @ square / area[known, row]).mean()
            found[part] = float(np.sqrt(spread / 2))
    return found


def center_prior_maps(sigma: Sequence[float], grid: tuple[int, int]) -> Tensor:
    """A centered Gaussian for each σ, (K, L)."""
    h, w = grid
    x, y = ((2 * torch.arange(cells) + 1 - cells) / (2 * cells) for cells in (w, h))  # exactly symmetric
    square = (y[:, None] ** 2 + x[None, :] ** 2).flatten()
    widths = torch.tensor(list(sigma), dtype=torch.float32)
    if not bool((widths > 0).all()):
        raise UserError(f"The center prior needs widths above 0, found {list(sigma)}.")
    return torch.exp(-square / (2 * widths[:, None] ** 2))


def central_cell_map(grid: tuple[int, int]) -> Tensor:
    """1 in the middle of the image, (L,); of an even number of cells, both in the middle."""
    rows, columns = ((2 * torch.arange(cells) + 1 - cells).abs() <= 1 for cells in grid)
    return (rows[:, None] & columns[None, :]).flatten().float()


def mean_region_maps(regions: Regions) -> Floats:
    """The mean region of each part, (R, L), every image with the same mass; uniform for a part that is never seen."""
    cover = regions.cover.astype(np.float64)
    mass = cover / np.maximum(cover.sum(-1, keepdims=True), 1e-12) * regions.seen[..., None]
    total = mass.sum(0)
    some = total.sum(-1, keepdims=True) > 0
    return np.asarray(np.where(some, total / np.maximum(regions.seen.sum(0), 1)[:, None], 1 / cover.shape[-1]))


def mean_cell_maps(regions: Regions) -> Floats:
    """1 in the cell that each part covers most on average over the images that show it, (R, L)."""
    cover = (regions.cover.astype(np.float64) * regions.seen[..., None]).sum(0)
    return np.asarray(cover == cover.max(-1, keepdims=True), dtype=np.float64)
