"""Stability: whether a map stays what it is when the image changes by next to nothing, by rank correlation."""

import torch
from torch import Tensor


def with_noise(images: Tensor, sigma: float, seed: int) -> Tensor:
    """Images (B, 3, H, W) of values in [0, 1] with Gaussian noise of that deviation, the same for a seed everywhere."""
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(seed)).to(images)
    return (images + sigma * noise).clamp(0, 1)


def rank_correlation(one: Tensor, other: Tensor) -> Tensor:
    """Spearman's ρ (…) of maps (…, L), ties sharing their mean rank; NaN where a map is constant."""
    a, b = _ranks(one), _ranks(other)
    a, b = a - a.mean(-1, keepdim=True), b - b.mean(-1, keepdim=True)
    scale = (a.square().sum(-1) * b.square().sum(-1)).sqrt()
    return torch.where(scale > 0, (a * b).sum(-1) / scale.clamp(min=1e-12), torch.nan)


def _ranks(values: Tensor) -> Tensor:
    """Mean ranks along the last axis."""
    flat = values.double().reshape(-1, values.shape[-1]).contiguous()
    ladder = flat.sort(-1).values
    below, up_to = (torch.searchsorted(ladder, flat, right=right) for right in (False, True))
    return ((below + up_to).double() / 2).reshape(values.shape)
