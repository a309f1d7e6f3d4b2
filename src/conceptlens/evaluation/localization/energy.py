"""Energy in a region: the share of a map's mass that lies where it should (Wang et al., Score-CAM, 2020, section 4.3).

A cell that a region covers in part counts in part. A map that is zero everywhere says nothing, as a uniform one does,
and is taken for one.
"""

import torch
from torch import Tensor


def is_empty(maps: Tensor) -> Tensor:
    """Which maps (…, L) have no mass, (…)."""
    return maps.clamp(min=0).sum(-1) <= 0


def as_mass(maps: Tensor) -> Tensor:
    """Maps (…, L) that sum to one, in fp32 or finer; what is negative counts as nothing."""
    values = maps.to(torch.promote_types(maps.dtype, torch.float32)).clamp(min=0)
    values = values / values.amax(-1, keepdim=True).clamp(min=torch.finfo(values.dtype).tiny)  # a sum could underflow
    total = values.sum(-1, keepdim=True)
    return torch.where(total > 0, values / total.clamp(min=1e-30), 1 / maps.shape[-1])


def energy(mass: Tensor, cover: Tensor) -> Tensor:
    """Mass (…, L) within regions (…, L), the share of each cell that they cover, (…)."""
    return (mass * cover).sum(-1)
