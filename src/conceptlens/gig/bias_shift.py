"""The net shift of a layer's vectors: what they are when every linear map that writes into them reads zeros.

GIG paper, Eq. 8: for a layer that ends in a batch norm, μ_BN = −γ μ_rn / √(σ²_rn + ε) + β, which is the batch norm of
zero. The same question has an answer in any network: a layer norm of zero is its β, a linear map or convolution of zero
is its bias, residual branches add, and a scale scales. In a transformer's residual stream this is everything constant
that was written into it so far, position embeddings by their mean. Constants are followed through additions, scales and
changes of shape, and end at an activation function.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

_ADD = {torch.add, Tensor.add, Tensor.add_, Tensor.__add__, Tensor.__radd__, Tensor.__iadd__}
_SCALE = {torch.mul, Tensor.mul, Tensor.mul_, Tensor.__mul__, Tensor.__rmul__}
_SAME = {
    *(F.dropout, F.dropout2d, Tensor.contiguous, Tensor.clone, torch.clone, Tensor.flatten, torch.flatten),
    *(Tensor.transpose, torch.transpose, Tensor.permute, torch.permute, Tensor.reshape, Tensor.view, torch.reshape),
    *(Tensor.__getitem__, Tensor.detach),
}


class Constants(TorchFunctionMode):
    """While it lasts, remembers for each value the constant (C,) that was added into it."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[int, Tensor] = {}
        self._alive: list[Tensor] = []  # an id means something only while its tensor lives

    def of(self, value: Tensor | None) -> Tensor | None:
        return None if value is None else self._found.get(id(value))

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        # In-place sums must be looked at before they overwrite what they read.
        constant = self._sum(args) if func in _ADD else None
        out = func(*args, **kwargs)
        if isinstance(out, Tensor) and out.is_floating_point():
            if func not in _ADD:
                constant = _written(func, args, kwargs)
            if constant is None and args:
                constant = self._carried(func, args)
            if constant is None:
                self._found.pop(id(out), None)
            else:
                self._found[id(out)] = constant.detach()
                self._alive.append(out)
        return out

    def _sum(self, args: tuple[Any, ...]) -> Tensor | None:
        parts = [self._term(value, other) for value, other in ((args[0], args[1]), (args[1], args[0]))]
        known = [part for part in parts if part is not None]
        return sum(known[1:], known[0]) if known and len({part.shape for part in known}) == 1 else None

    def _term(self, value: Any, other: Any) -> Tensor | None:
        """What one side of a sum adds: what is known of it, or, for a parameter beside it, the parameter's mean."""
        if not isinstance(value, Tensor):
            return None
        if isinstance(value, torch.nn.Parameter) and isinstance(other, Tensor) and other.ndim == 3:
            return value.detach().reshape(-1, value.shape[-1]).mean(0)  # position embeddings of tokens
        return self.of(value)

    def _carried(self, func: Callable[..., Any], args: tuple[Any, ...]) -> Tensor | None:
        if func in _SAME:
            return self.of(args[0])
        if func in (torch.cat, torch.concat) and isinstance(args[0], (tuple, list)):
            # A class token joins the patches, which are the most.
            return self.of(max(args[0], key=lambda part: part.numel()))
        if func in _SCALE and len(args) > 1:
            known, scale = self.of(args[0]), args[1]
            if known is None and isinstance(args[1], Tensor):
                known, scale = self.of(args[1]), args[0]
            if known is not None and isinstance(scale, (int, float)):
                return known * scale
            if known is not None and isinstance(scale, Tensor) and scale.numel() in (1, known.numel()):
                return known * scale.detach().flatten()
        return None


def _written(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    """The constant that an affine map writes: its value at zero."""
    if func is F.batch_norm:
        names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if given["running_mean"] is None or given.get("training"):
            return None
        scale = torch.rsqrt(given["running_var"] + given.get("eps", 1e-5))
        if given.get("weight") is not None:
            scale = scale * given["weight"]
        shift: Tensor = -given["running_mean"] * scale
        return shift if given.get("bias") is None else shift + given["bias"]
    if func is F.layer_norm:
        return _bias(args, kwargs, 3)
    if func is F.group_norm:
        return _bias(args, kwargs, 3)
    if func in (F.conv2d, torch.conv2d, F.linear):
        return _bias(args, kwargs, 2)
    return None


def _bias(args: tuple[Any, ...], kwargs: dict[str, Any], place: int) -> Tensor | None:
    bias = kwargs.get("bias", args[place] if len(args) > place else None)
    return bias if isinstance(bias, Tensor) else None
