"""How far a map's center of mass is from the place it should show."""

import torch
from torch import Tensor


def centroid_distance(mass: Tensor, center: Tensor, pixels: Tensor, grid: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Distances (B, K) in cells, and in longer sides of the object.

    Args:
        mass: Maps (B, K, L) that sum to one.
        center: Where they should be, (B, K, 2) as (x, y) in cells.
        pixels: Longer sides of the object for a cell in x and y, (B, 1, 2): cells of a squashed image are no squares.
        grid: (h, w).
    """
    cell = torch.arange(grid[0] * grid[1], device=mass.device)
    places = torch.stack([cell % grid[1], cell // grid[1]], 1).to(mass.dtype) + 0.5
    way = mass @ places - center
    return way.norm(dim=-1), (way * pixels).norm(dim=-1)
