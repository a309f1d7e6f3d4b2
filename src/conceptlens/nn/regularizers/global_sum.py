"""Sums over all processes that gradients pass through, for losses that need the statistics of a whole batch."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        summed = tensor.clone(memory_format=torch.contiguous_format)
        torch.distributed.all_reduce(summed)
        return summed

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        # Each process holds a share of the loss, and each share depends on this process's part of the sum.
        summed = gradient.clone(memory_format=torch.contiguous_format)
        torch.distributed.all_reduce(summed)
        return summed


def global_sum(tensor: Tensor) -> Tensor:
    """The sum over all processes; every process must call it equally often. The tensor itself if there is one only."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return tensor
    if torch.distributed.get_world_size() == 1:
        return tensor
    return _AllReduce.apply(tensor)  # type: ignore[no-any-return]
