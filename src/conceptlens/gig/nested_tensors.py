"""What a module returns: a tensor, or tuples, lists and dictionaries of them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def first_tensor(value: Any) -> Tensor | None:
    """The value itself, or the first tensor of a tuple or list."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (tuple, list)):
        return next((part for part in value if isinstance(part, Tensor)), None)
    return None


def with_first(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The value with its first tensor changed."""
    if isinstance(value, Tensor):
        return change(value)
    parts = list(value)
    place = next(i for i, part in enumerate(parts) if isinstance(part, Tensor))
    parts[place] = change(parts[place])
    return tuple(parts) if isinstance(value, tuple) else parts


def mapped(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The value with every tensor changed."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, (tuple, list)):
        return type(value)(mapped(part, change) for part in value)
    if isinstance(value, dict):
        return {name: mapped(part, change) for name, part in value.items()}
    return value


def void(value: Any) -> Any:
    """The value with NaN in the place of every number."""
    return mapped(value, lambda tensor: torch.full_like(tensor, torch.nan) if tensor.is_floating_point() else tensor)


def repeated(value: Any, batch: int) -> Any:
    """The value for a larger batch, n times in a row."""
    return mapped(
        value,
        lambda tensor: (
            tensor.repeat(batch // len(tensor), *[1] * (tensor.ndim - 1))
            if tensor.ndim and len(tensor) and batch % len(tensor) == 0
            else tensor
        ),
    )
