"""Checkpoints in the layout of timm's model: timm itself converts older layouts and other position grids."""

import sys
from collections.abc import Callable

from torch import Tensor, nn


def in_layout_of(
    model: nn.Module, state: dict[str, Tensor], ignore: Callable[[str], bool] = lambda name: False
) -> dict[str, Tensor]:
    """The state in the layout of the model; one that fits already stays as it is.

    Some versions of timm take a Swin without a classifier for one in the authors' layout and move what is in its place.

    Args:
        model: One of timm's.
        state: Tensors by name.
        ignore: Names that one of both may have alone.
    """
    shapes = [
        {name: value.shape for name, value in tensors.items() if not ignore(name)}
        for tensors in (model.state_dict(), state)
    ]
    if shapes[0] == shapes[1]:
        return state
    convert = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    return state if convert is None else convert(state, model)
