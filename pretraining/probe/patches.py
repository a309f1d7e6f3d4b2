"""Patch tokens without labels: is the first principal component the object, and how many directions are there?

Foreground: the side of the first principal component, cut at zero, that has less weight on the image's border; its
overlap with the box of the bird, both as areas on a 14 × 14 grid. `own` takes the component of each image's own
tokens, `shared` one component of the tokens of all images. Coarser and finer grids are resized to 14 × 14 first
(bilinear; antialiased where they shrink). A box is no outline: even a perfect mask of the bird stays well below 1.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from conceptlens.stats.rank import patch_ranks
from pretraining.probe.boxes import box_overlap, centered_boxes, coverage, overlap_with_box, read_boxes
from pretraining.probe.features import read_batches
from pretraining.probe.models import Model
from pretraining.probe.sets import ImageSet, Places

SIDE = 14
RANKED = 4  # patch matrices a batch: a fine grid of many channels is large in double precision


def resize_grid(grid: Tensor, side: int = SIDE) -> Tensor:
    """(B, h, w, C) on a square grid of that side."""
    if grid.shape[1:3] == (side, side):
        return grid
    shrinks = grid.shape[1] > side
    maps = F.interpolate(grid.permute(0, 3, 1, 2).float(), (side, side), mode="bilinear", antialias=shrinks)
    return maps.permute(0, 2, 3, 1)


def border(side: int) -> Tensor:
    """True on the outermost ring of cells, (side, side)."""
    ring = torch.ones(side, side, dtype=torch.bool)
    ring[1:-1, 1:-1] = False
    return ring


def own_component(grids: Tensor) -> Tensor:
    """Scores (B, h, w) of each image's tokens on their first principal component; the foreground is positive."""
    tokens = grids.flatten(1, 2).double()
    tokens = tokens - tokens.mean(1, keepdim=True)
    # The tokens' Gram matrix (L, L) has the scores for eigenvectors, whatever the width of the tokens.
    values, vectors = torch.linalg.eigh(tokens @ tokens.transpose(1, 2))
    scores: Tensor = (vectors[:, :, -1] * values[:, -1:].clamp(min=0).sqrt()).unflatten(1, grids.shape[1:3])
    return scores * _foreground_sign(scores).view(-1, 1, 1)


def shared_component(grids: Tensor) -> Tensor:
    """The same with one component for all tokens of all images, and one sign."""
    tokens = grids.flatten(0, 2)
    mean, second = tokens.mean(0), torch.zeros(tokens.shape[1], tokens.shape[1])
    for part in torch.split(tokens, 20_000):  # a copy of all tokens would fill the memory of a laptop
        centered = part - mean
        second += centered.T @ centered
    direction = torch.linalg.eigh(second.double())[1][:, -1].to(tokens.dtype)
    scores: Tensor = (tokens @ direction - mean @ direction).view(grids.shape[:3])
    return scores * _foreground_sign(scores.mean(0, keepdim=True))


def _foreground_sign(scores: Tensor) -> Tensor:
    """(B,) of ±1, with which the border of (B, h, w) weighs more on the negative side."""
    return 1.0 - 2.0 * (scores[:, border(scores.shape[1])].sum(1) > 0).to(scores.dtype)


def choose_test_images(images: ImageSet, count: int, seed: int) -> list[int]:
    """A random sample of the test split, in order."""
    test = images.where("test")
    drawn = np.random.default_rng(seed).permutation(test)[:count]
    return [int(index) for index in np.sort(drawn)]


def see_grids(model: Model, images: ImageSet, chosen: Sequence[int], *, quiet: bool = False) -> tuple[Tensor, Any]:
    """Grids (N, 14, 14, C), and what is known of the native ones: their size and ranks."""
    grids: list[Tensor] = []
    ranks: dict[str, list[Tensor]] = {"effective": [], "effective_centered": []}
    native: tuple[int, ...] = ()
    files = [images.files[index] for index in chosen]
    with tqdm(total=len(files), unit="image", desc=f"patches: {model.name}", disable=quiet, mininterval=5) as bar:
        for (pixels,) in read_batches(images.root, files, [model], 16):
            grid = model.see(pixels).grid
            native = tuple(grid.shape[1:])
            for part in torch.split(grid.flatten(1, 2), RANKED):
                ranks["effective"].append(patch_ranks(part, ("effective",))["effective"])
                ranks["effective_centered"].append(patch_ranks(part, ("effective",), centered=True)["effective"])
            grids.append(resize_grid(grid))
            bar.update(len(pixels))
    means = {name: float(torch.cat(values).mean()) for name, values in ranks.items()}
    return torch.cat(grids), {"native_grid": list(native[:2]), "width": native[2], "rank": means}


def spread(values: Tensor) -> dict[str, float]:
    """Mean over images with the standard error of that mean."""
    return {"mean": float(values.mean()), "standard_error": float(values.std() / len(values) ** 0.5)}


def measure_patches(
    model: Model, images: ImageSet, places: Places, *, count: int = 1000, seed: int = 0, quiet: bool = False
) -> dict[str, Any]:
    """Overlap of foreground and box, and effective ranks, of a network; the same test images for every network.

    Returns:
        Mean overlaps by a network's `own` and `shared` component; of a box of the training boxes' mean size in the
        middle of every image, and of the whole image; the native grid's ranks, centered by the image's mean and not.
    """
    chosen = choose_test_images(images, count, seed)
    boxes = read_boxes(places)
    covered = coverage(boxes[chosen], (SIDE, SIDE))
    centered = centered_boxes(boxes, [int(index) for index in images.where("train")])
    grids, facts = see_grids(model, images, chosen, quiet=quiet)
    own = torch.cat([own_component(part) for part in torch.split(grids, 50)])
    shared = shared_component(grids)
    overlaps = {
        "own": overlap_with_box(own > 0, covered),
        "shared": overlap_with_box(shared > 0, covered),
        "centered_box": torch.from_numpy(box_overlap(centered[chosen], boxes[chosen])),
        "whole_image": covered.mean((1, 2)),
    }
    report = {"images": len(chosen), "seed": seed, "grid": SIDE, **facts}
    return report | {name: spread(values) for name, values in overlaps.items()}
