"""Which concepts are in at each point of a curve of insertion or deletion."""

import torch
from torch import Tensor


def kept(order: Tensor, points: int, *, deletion: bool) -> Tensor:
    """Which concepts are in, (M, A): none to all in that order, or all to none.

    Args:
        order: (A,) concepts, the most important first.
        points: M.
        deletion: Take out instead of put in.
    """
    a = len(order)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(a, device=order.device)
    number = torch.linspace(0, a, points, device=order.device).round().long()
    inside = rank[None] < number[:, None]
    return ~inside if deletion else inside
