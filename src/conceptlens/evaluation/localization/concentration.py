"""How many patches a map is spread over, and whether it changes from image to image."""

import torch
from torch import Tensor

from conceptlens.evaluation.faithfulness.stability import rank_correlation


def effective_patches(mass: Tensor) -> Tensor:
    """exp of the entropy of maps (…, L) that sum to one: 1 for a single patch, L for a uniform map."""
    entropy: Tensor = torch.special.entr(mass).sum(-1)
    return entropy.exp()


def likeness_to_next(maps: Tensor) -> Tensor:
    """Rank correlation (B, K) of each image's maps (B, K, L) with those of the next; NaN for one image alone."""
    alike = rank_correlation(maps, maps.roll(1, 0))
    return torch.full_like(alike, torch.nan) if len(maps) == 1 else alike
