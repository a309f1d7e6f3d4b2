"""Randomized weights (Adebayo et al., Sanity checks for saliency maps, 2018).

A map that stays the same when the weights lose all they learned shows the image, not the model. Each tensor of weights
is shuffled in itself: its numbers stay, so activations keep their scale, and what they were for is gone.
"""

import copy
from typing import TypeVar

import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)


def shuffled(model: M, seed: int, part: str = "") -> M:
    """A copy whose parameters are permuted, each within itself; buffers, such as text vectors, stay.

    Args:
        model: Stays as it is.
        seed: Of the permutations.
        part: Only those of this submodule, such as `encoder`; all by default.
    """
    other = copy.deepcopy(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in other.get_submodule(part).parameters():
            order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
            parameter.copy_(parameter.flatten()[order].view_as(parameter))
    return other
