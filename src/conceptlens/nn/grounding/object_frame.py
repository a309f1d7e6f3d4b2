"""A frame that moves with the object, for objects that are not always in the same place: beyond the PF-CBM paper, which
names it as the way to arbitrary poses.

The gate says where the object is. Its center of mass c and its spread s (the root of the mean squared distance, over
√2) bring every patch to (Φ − c) / s, and back to patches of a typical image: Φ' = c₀ + s₀ (Φ − c) / s. `mirrored` also
turns the columns over where the object's mass leans to the left, so that what is usually at its front is at one side:
its third moment is then never negative. Everything is differentiable but the choice of the side.
"""

from typing import Literal

import torch
from torch import Tensor

Pose = Literal["image", "object", "mirrored"]
SMALLEST = 0.5  # patches: the spread of an object of one patch, which would divide by zero


def object_frame(places: Tensor, gate: Tensor, center: Tensor, spread: Tensor, *, mirrored: bool) -> Tensor:
    """Places of the patches in each object's frame, (B, L, 2).

    Args:
        places: Φ, (L, 2).
        gate: (B, L) in [0, 1].
        center: c₀, (2,): where a typical object is.
        spread: s₀, (): how large.
        mirrored: Turn over objects that lean to the left.
    """
    middle, size, side = pose_of(places, gate, mirrored=mirrored)
    away = (places - middle[:, None]) / size[:, None, None]
    if mirrored:
        away = torch.stack((away[..., 0], away[..., 1] * side[:, None]), -1)
    return center + spread * away


def pose_of(places: Tensor, gate: Tensor, *, mirrored: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Each object's center (B, 2), spread (B,) and side (B,) of ±1."""
    share = gate.float() / gate.float().sum(-1, keepdim=True).clamp_min(1e-6)
    middle = share @ places
    away = places - middle[:, None]
    size = ((share[..., None] * away.square()).sum((1, 2)) / 2).clamp_min(SMALLEST**2).sqrt()
    if not mirrored:
        return middle, size, torch.ones_like(size)
    lean = (share * away[..., 1].pow(3)).sum(-1).detach()
    return middle, size, torch.where(lean < 0, -1.0, 1.0)
