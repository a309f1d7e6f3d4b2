"""The number of effective concepts (NEC): how many concepts a class is decided by.

NEC is the mean over classes of the number of non-zero weights of a class (VLG-CBM: Srivastava, Yan and Weng, 2024).
Accuracy at the same NEC compares bottlenecks fairly: with enough weights, random concepts do as well as named ones.
"""

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor

from conceptlens.core.errors import UserError

WANTED = (5, 10, 15, 20, 25, 30)  # at which accuracy is usually shown
Per = Literal["mean", "class"]


def concepts_per_class(weights: Tensor) -> Tensor:
    """Non-zero weights of each class: (…, C, d) → (…, C)."""
    return (weights != 0).sum(-1)


def nec(weights: Tensor) -> Tensor:
    """Their mean over classes: (…, C, d) → (…,), in float64. A class without any counts as zero."""
    return concepts_per_class(weights).double().mean(-1)


def keep_largest(size: Tensor, wanted: float, per: Per = "mean") -> Tensor:
    """Which weights stay when the smallest go until the NEC is the wanted one.

    Args:
        size: (C, d) how much each weight matters; zero for those that are gone already.
        wanted: The NEC.
        per: `mean` keeps the ⌊wanted · C⌋ largest of all classes, so that a class may use more than another; `class`
            keeps the ⌊wanted⌋ largest of each class.

    Returns:
        A mask (C, d).
    """
    if not 0 < wanted <= size.shape[-1]:
        raise UserError(f"The wanted NEC must lie above 0 and not above the {size.shape[-1]} features, found {wanted}.")
    if per == "class":
        chosen = size.topk(int(wanted), dim=-1).indices
        mask = torch.zeros_like(size, dtype=torch.bool).scatter_(-1, chosen, True)
    elif per == "mean":
        chosen = size.flatten().topk(int(wanted * len(size) + 1e-9)).indices
        mask = torch.zeros(size.numel(), dtype=torch.bool, device=size.device)
        mask[chosen] = True
        mask = mask.view_as(size)
    else:
        raise UserError(f"per must be 'mean' or 'class', found {per!r}.")
    return mask & (size > 0)


def check_wanted(wanted: Iterable[float]) -> tuple[float, ...]:
    """NECs to look at, in order."""
    values = tuple(sorted(float(value) for value in wanted))
    if not values:
        raise UserError(f"At least one NEC is needed, for example {', '.join(map(str, WANTED))}.")
    return values
