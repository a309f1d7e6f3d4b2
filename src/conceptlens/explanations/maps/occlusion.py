"""Occlusion (M. Zeiler, R. Fergus, Visualizing and understanding convolutional networks, 2014, section 4.1).

A square of the image's mean color covers one region after another; where a concept's score falls most, it was seen.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.methods.contract import Pipeline

REGIONS = 7  # along each side, or as many as cells if those are fewer
COVERED = 512  # images with a covered region that are read at a time


@torch.no_grad()
def occlusion_maps(pipeline: Pipeline, images: Tensor, grid: tuple[int, int], scores: Tensor) -> Tensor:
    """How much each concept's score falls where a region is covered, (B, K, L) over the cells of a grid; signed.

    Args:
        pipeline: In evaluation mode.
        images: (B, 3, H, W) of bytes or in [0, 1].
        grid: (h, w), L = h · w. A region covers several cells of a grid finer than the regions.
        scores: (B, K): concept logits of the whole images.
    """
    values = images.float() / 255 if images.dtype == torch.uint8 else images
    mean = values.mean((2, 3), keepdim=True)
    rows, columns = (min(REGIONS, cells) for cells in grid)
    masks = torch.eye(rows * columns, device=values.device).view(-1, 1, rows, columns)
    masks = F.interpolate(masks, values.shape[-2:], mode="nearest")  # (G, 1, H, W)
    few = max(COVERED // len(masks), 1)
    falls = []
    for some, color, whole in zip(*(torch.split(part, few) for part in (values, mean, scores)), strict=True):
        covered = torch.where(masks[None] > 0, color[:, None], some[:, None])  # (b, G, 3, H, W)
        left = pipeline(covered.flatten(0, 1)).concept_logits.unflatten(0, (len(some), -1))  # (b, G, K)
        falls.append((whole[:, None] - left).float().mT.unflatten(-1, (rows, columns)))
    return F.interpolate(torch.cat(falls), grid, mode="nearest").flatten(2)
