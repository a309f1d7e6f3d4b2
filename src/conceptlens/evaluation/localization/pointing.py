"""The pointing game (Zhang et al., Excitation Backprop, 2016): does a map's largest value lie where it should?

A map is constant within a cell, so its peak is any of that cell's pixels: a cell that a region covers by half is half a
hit. Where several cells share the largest value, each is the peak with the same chance; so a uniform map reaches what
pointing at random does.
"""

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d

ROUNDING = 1e-6  # values that differ by so little are the same


def peak(maps: Tensor) -> Tensor:
    """The chance of each cell of maps (…, L) to be the peak, (…, L)."""
    top = (maps >= (1 - ROUNDING) * maps.amax(-1, keepdim=True)).to(torch.float32)
    return top / top.sum(-1, keepdim=True)


def pointing(top: Tensor, hit: Tensor) -> Tensor:
    """The chance (…) that a peak (…, L) hits, given how far each cell is a hit, (…, L) of 0 to 1."""
    return (top * hit.to(top.dtype)).sum(-1)


def around(cells: Tensor, grid: tuple[int, int]) -> Tensor:
    """The marked cells (B, K, L) and their eight neighbors."""
    laid_out = cells.to(torch.float32).view(*cells.shape[:-1], *grid)
    return max_pool2d(laid_out, 3, stride=1, padding=1).flatten(-2)
