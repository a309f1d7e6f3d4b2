"""Regions of a token grid: the binary mask of Eq. 7 of the CORTEX paper."""

import re

import torch
from torch import Tensor

from conceptlens.core.errors import UserError


def parse_region(text: str, grid: tuple[int, int]) -> Tensor:
    """A mask (h, w) from words: `all`, `center 4x4`, or `rows,columns` as `7:11,3:8` (ends not included).

    Raises:
        UserError: The words mean nothing, or no position of the grid.
    """
    mask = torch.zeros(grid, dtype=torch.bool)
    if text.strip() == "all":
        return ~mask
    center = re.fullmatch(r"\s*cent(?:re|er)\s+(\d+)\s*[x×]\s*(\d+)\s*", text)
    ranges = re.fullmatch(r"\s*(\d+)\s*:\s*(\d+)\s*,\s*(\d+)\s*:\s*(\d+)\s*", text)
    if center:
        sides = int(center[1]), int(center[2])
        top, left = ((whole - side) // 2 for whole, side in zip(grid, sides, strict=True))
        bottom, right = top + sides[0], left + sides[1]
    elif ranges:
        top, bottom, left, right = map(int, ranges.groups())
    else:
        raise UserError(
            f"{text!r}: expected a region of the token grid as `all`, `center 4x4` or `rows,columns`: 7:11,3:8."
        )
    if min(top, left) < 0 or bottom > grid[0] or right > grid[1] or bottom <= top or right <= left:
        raise UserError(f"{text!r}: rows must lie in 0:{grid[0]}, columns in 0:{grid[1]}, and hold at least one token.")
    mask[top:bottom, left:right] = True
    return mask


def check_mask(mask: Tensor, grid: tuple[int, int]) -> None:
    """Raise unless the mask (h, w) belongs to the grid and marks a position."""
    if tuple(mask.shape) != tuple(grid):
        raise UserError(f"Expected a mask of {grid[0]} × {grid[1]} tokens, found {tuple(mask.shape)}.")
    if not bool(mask.any()):
        raise UserError("The mask is empty: mark at least one position of the grid that may change.")
