"""Intersection over union of a region and the cells where a map exceeds a share of its peak."""

import torch
from torch import Tensor

THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
FIXED = 0.5


def overlap(maps: Tensor, cover: Tensor, thresholds: tuple[float, ...] = THRESHOLDS) -> list[Tensor]:
    """Overlaps (…) of maps (…, L) with regions (…, L), one for each threshold; partly covered cells count in part."""
    area, top = cover.sum(-1), maps.amax(-1, keepdim=True)
    found = []
    for threshold in thresholds:
        inside = (maps >= threshold * top).to(cover.dtype)
        both = (inside * cover).sum(-1)
        found.append(both / (inside.sum(-1) + area - both).clamp(min=torch.finfo(cover.dtype).tiny))
    return found
