"""Other pixels around an object, and the object elsewhere: does the reading hold, and does the map go along?

- Background swap: the object stays, everything else comes from another image, from which its own object was taken out.
- Moved region: the object, or a part, stands elsewhere, as many whole cells away as the image has room for; where it
  was is now the color of the background. A map that shows it moves along: of the mass that the region had more than its
  new place, the share that is found there afterwards. A map that never looks has 0.
"""

import torch
from torch import Tensor

from conceptlens.evaluation.localization.energy import as_mass, energy


def background_color(images: Tensor, masks: Tensor) -> Tensor:
    """The median color (B, 3) of images (B, 3, H, W) outside of masks (B, H, W); of all pixels where nothing is."""
    outside = (masks < 0.5).flatten(1)
    outside = torch.where(outside.any(1, keepdim=True), outside, True)
    values = torch.where(outside[:, None], images.flatten(2), torch.nan)
    return values.nanmedian(-1).values


def swap_backgrounds(images: Tensor, masks: Tensor) -> Tensor:
    """Objects before the background of the image before them in the batch, (B, 3, H, W).

    Args:
        images: (B, 3, H, W).
        masks: (B, H, W) from 0 to 1: each image's object.
    """
    color = background_color(images, masks)[..., None, None].expand_as(images)
    empty = torch.lerp(images, color, masks[:, None].to(images))
    return torch.lerp(empty.roll(1, 0), images, masks[:, None].to(images))


def farthest_shift(mask: Tensor, grid: tuple[int, int]) -> tuple[int, int]:
    """Whole cells, down and to the right, by which a mask (H, W) can move and stays in the image; (0, 0) if none."""
    shift = []
    for axis, cells in enumerate(grid):
        rows = (mask >= 0.5).any(1 - axis).nonzero().flatten()
        if not len(rows):
            return 0, 0
        cell = mask.shape[axis] / cells
        back, ahead = int(rows[0] / cell), int((mask.shape[axis] - 1 - rows[-1]) / cell)
        shift.append(ahead if ahead >= back else -back)
    return shift[0], shift[1]


def move_region(images: Tensor, masks: Tensor, shifts: Tensor, grid: tuple[int, int], color: Tensor) -> Tensor:
    """Images with a region moved by whole cells, (B, 3, H, W).

    Args:
        images: (B, 3, H, W); sides are multiples of the grid's.
        masks: (B, H, W) from 0 to 1: the region.
        shifts: (B, 2): cells down and to the right.
        grid: (h, w).
        color: (B, 3): what stands where it was.
    """
    made = []
    for image, mask, shift, fill in zip(images, masks.to(images), shifts.tolist(), color, strict=True):
        by = [round(cells * side / count) for cells, side, count in zip(shift, image.shape[1:], grid, strict=True)]
        without = torch.lerp(image, fill[:, None, None].expand_as(image), mask)
        made.append(torch.lerp(without, image.roll(by, (1, 2)), mask.roll(by, (0, 1))))
    return torch.stack(made)


def roll_cells(cover: Tensor, shifts: Tensor, grid: tuple[int, int]) -> Tensor:
    """Covers (B, L) moved by shifts (B, 2) in cells."""
    return torch.stack(
        [each.view(grid).roll(tuple(by), (0, 1)).flatten() for each, by in zip(cover, shifts.tolist(), strict=True)]
    )


def followed(before: Tensor, after: Tensor, old: Tensor, new: Tensor) -> tuple[Tensor, Tensor]:
    """What maps gained at the region's new place, and what they could have, (B,) each.

    Args:
        before: Maps (B, L) of the images as they are.
        after: Maps (B, L) of those with the region elsewhere.
        old: (B, L): cells of the region.
        new: (B, L): cells of its new place.
    """
    start, end = as_mass(before), as_mass(after)
    there = energy(start, new)
    return energy(end, new) - there, energy(start, old) - there
