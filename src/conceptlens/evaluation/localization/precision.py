"""Average precision of a map's cells: does ranking cells by the map put those of the region first?

AP = Σ_i c_i p_i / Σ_i c_i over cells i, where c_i is the share of cell i that the region covers and p_i the mean share
of all cells whose value is at least that of cell i. Equal values are taken together, so that a uniform map reaches the
region's share of the image.
"""

import torch
from torch import Tensor


def average_precision(maps: Tensor, cover: Tensor) -> Tensor:
    """Of maps (…, L) and regions (…, L): (…)."""
    values, order = maps.float().sort(-1, descending=True)
    cells = cover.to(values.dtype).expand_as(maps).gather(-1, order)
    places = torch.arange(1, cells.shape[-1] + 1, device=cells.device)
    precision = cells.cumsum(-1) / places
    last = torch.searchsorted(-values.contiguous(), -values.contiguous(), right=True) - 1  # of each tie
    return (cells * precision.gather(-1, last)).sum(-1) / cells.sum(-1)
