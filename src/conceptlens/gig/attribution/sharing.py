"""The backward pass of Sharing Ratio Decomposition (GIG paper, Eq. 10): see `srd` for what it computes and why.

While `Sharing` lasts, torch's functions compute what they always do, and record a graph whose backward pass carries
relevance: v_j R_j / ‖v_j‖² in the place of a gradient. Every function here is named after the torch function whose part
it takes.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from conceptlens.core.errors import UserError

TINY = 1e-20  # a square below this is that of a vector of zeros
# Where a vector is all zeros after its activation, a bias's share still goes to it. It is carried by a
# gradient so large that an inner product with zeros, taken for numbers of this size, gives it back.
DEAD = 1e-10

_ACTIVATIONS = {
    *(F.relu, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_, F.relu6, F.leaky_relu, F.elu, F.selu, F.celu),
    *(F.gelu, F.silu, F.mish, F.hardswish, F.softplus, F.hardtanh, F.prelu, torch.tanh, Tensor.tanh, F.tanh),
}
_GATES = {
    *(torch.sigmoid, Tensor.sigmoid, F.sigmoid, F.hardsigmoid, torch.softmax, Tensor.softmax, F.softmax),
    *(Tensor.sigmoid_, F.normalize, torch.norm, Tensor.norm, torch.linalg.norm, torch.linalg.vector_norm),
}
_ADD = {torch.add, Tensor.add, Tensor.add_, Tensor.__add__, Tensor.__radd__, Tensor.__iadd__}
_DIVIDE = {torch.div, Tensor.div, Tensor.div_, Tensor.__truediv__, torch.true_divide}


# Of batch norms: what they were made of, s and t. Keys are weak, so that it goes with the network.
_LINES: WeakTensorKeyDictionary = WeakTensorKeyDictionary()


class Sharing(TorchFunctionMode):
    """While it lasts, torch's functions build a graph whose backward pass is Eq. 10."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _ACTIVATIONS:
            return _activation(func, args, kwargs)
        if func in (torch.conv2d, F.conv2d):
            return _convolution(func, args, kwargs)
        if func is F.linear:
            return _linear(*args, **kwargs)
        if func is F.batch_norm:
            return _batch_norm(*args, **kwargs)
        if func is F.layer_norm:
            return _layer_norm(*args, **kwargs)
        if func is F.group_norm:
            return _group_norm(*args, **kwargs)
        if func is F.scaled_dot_product_attention:
            return _attention(*args, **kwargs)
        if func is F.multi_head_attention_forward:
            return _multi_head(args, kwargs)
        if func in _GATES:
            out = func(*args, **kwargs)
            return out.detach() if isinstance(out, Tensor) else out
        if func in _DIVIDE and len(args) > 1 and isinstance(args[1], Tensor):
            return func(args[0], args[1].detach(), *args[2:], **kwargs)
        out = func(*args, **kwargs)
        if func in _ADD and isinstance(out, Tensor) and out.ndim == 3 and out.requires_grad:
            return _sum(out, args)
        return out


def _last(value: Tensor) -> Tensor:
    """Mark a value whose channels come last, as after a linear map."""
    value._channels_last = True  # type: ignore[attr-defined]
    return value


def _channel(value: Tensor) -> int:
    return -1 if value.ndim != 4 or getattr(value, "_channels_last", False) else 1


def _toward(value: Tensor, share: Tensor, channel: int, onto: Tensor | None = None) -> Tensor:
    """A gradient whose inner product with the value, over channels, is the share of each position; added to `onto`.

    Few kernels: on a GPU, launching them is what a pass of one image costs.
    """
    size = value.square().sum(channel, keepdim=True)
    dead = (size <= TINY).to(share.dtype)
    size += dead  # a share of 1 for zeros, which carry nothing
    part = share / size
    toward = value * part if onto is None else torch.addcmul(onto, value, part)
    return torch.addcmul(toward, share, dead, value=1 / (DEAD * value.shape[channel]))


class _Node(Function):
    """v ↦ f(v); a gradient g comes down as v R / ‖v‖² with R = ⟨g, f(v)⟩."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, active: Tensor, channel: int) -> Tensor:
        ctx.save_for_backward(value, active)
        ctx.channel = channel
        return active.clone() if active is value else active

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        value, active = ctx.saved_tensors
        # For numbers that are not zero DEAD is nothing; where all are, it gives back what `_toward` made large.
        share = ((active + DEAD) * gradients[0]).sum(ctx.channel, keepdim=True)
        return _toward(value, share, ctx.channel), None, None


def _activation(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    value = args[0] if args else kwargs.pop("input")
    kwargs = {name: given for name, given in kwargs.items() if name not in ("inplace", "input")}
    if func in (F.relu, F.relu6, F.silu, F.mish, F.hardswish, F.selu):
        rest: tuple[Any, ...] = ()
    elif func in (torch.relu_, Tensor.relu_):
        func, rest = torch.relu, ()
    else:
        rest = args[1:2] if func in (F.leaky_relu, F.elu, F.celu) else args[1:]
    with torch.no_grad():
        active = func(value, *rest, **kwargs)
    channel = _channel(value)
    out = _Node.apply(value, active, channel)
    return _last(out) if channel == -1 else out


class _BiasStay(Function):
    """y ↦ y + b, where the part of b stays at its position: it goes to the vector x from which y was made."""

    @staticmethod
    def forward(ctx: Any, source: Tensor, made: Tensor, bias: Tensor, channels: tuple[int, int]) -> Tensor:
        ctx.save_for_backward(source, bias)
        ctx.channels = channels
        return made + bias

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        source, bias = ctx.saved_tensors
        before, after = ctx.channels
        share = (gradients[0] * bias).sum(after, keepdim=True)
        return _toward(source, share, before), gradients[0], None, None


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    out = torch.nn.functional.linear(input, weight)
    if bias is not None:
        out = _BiasStay.apply(input, out, bias, (-1, -1)) if input.requires_grad else out + bias
    return _last(out)


class _Shares:
    """The part of a batch norm's shift, on its way to the convolution whose bias it is."""

    def __init__(self) -> None:
        self.of: Tensor | None = None  # (B, 1, H, W)


class _Convolution(Function):
    """A convolution; relevance of its bias, and of the batch norm behind it, goes evenly to what it reads."""

    @staticmethod
    def forward(
        ctx: Any, value: Tensor, weight: Tensor, bias: Tensor | None, settings: tuple[Any, ...], shares: _Shares
    ) -> Tensor:
        ctx.save_for_backward(value, weight, bias)
        ctx.settings, ctx.shares = settings, shares
        return torch.conv2d(value, weight, bias, *settings)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        value, weight, bias = ctx.saved_tensors
        stride, padding, dilation, groups = ctx.settings
        given = gradients[0]
        down, _, _ = torch.ops.aten.convolution_backward(
            given, value, weight, None, stride, padding, dilation, False, (0, 0), groups, (True, False, False)
        )
        share = ctx.shares.of
        ctx.shares.of = None
        if bias is not None:
            own = (given * bias[:, None, None]).sum(1, keepdim=True)
            share = own if share is None else share + own
        if share is not None:
            down = _toward(value, _spread(share, value, weight, ctx.settings), 1, down)
        return down, None, None, None, None


def _spread(share: Tensor, value: Tensor, weight: Tensor, settings: tuple[Any, ...]) -> Tensor:
    """Share each output position's number (B, 1, h, w) out evenly to the positions inside the image that it reads."""
    stride, padding, dilation, _ = settings
    if weight.shape[2:] == (1, 1) and tuple(stride) == (1, 1) and tuple(padding) == (0, 0):
        return share
    window, read = _reads(
        tuple(weight.shape[2:]), tuple(value.shape[2:]), stride, padding, dilation, value.dtype, value.device
    )
    spread: Tensor = torch.ops.aten.convolution_backward(
        share / read, value[:, :1], window, None, stride, padding, dilation, False, (0, 0), 1, (True, False, False)
    )[0]
    return spread


@lru_cache(maxsize=256)
def _reads(
    kernel: tuple[int, ...],
    size: tuple[int, ...],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """A window of ones (1, 1, k, k), and how many positions inside the image each output position reads."""
    window = torch.ones(1, 1, *kernel, dtype=dtype, device=device)
    ones = torch.ones(1, 1, *size, dtype=dtype, device=device)
    return window, torch.conv2d(ones, window, None, stride, padding, dilation).clamp_min(1)


def _convolution(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    given: dict[str, Any] = {"bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1}
    given |= dict(zip(names, args, strict=False)) | kwargs
    value, padding = given["input"], given["padding"]
    if isinstance(padding, str) or value.ndim != 4:  # "same" pads on both sides as it needs: left to torch
        return func(*args, **kwargs)
    settings = (_pair(given["stride"]), _pair(padding), _pair(given["dilation"]), given["groups"])
    shares = _Shares()
    out = _Convolution.apply(value, given["weight"], given["bias"], settings, shares)
    out._shares = shares
    return out


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[-1]))


class _BatchNorm(Function):
    """y = s x + t; the part of t is handed to the convolution before, or stays at its position."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, scale: Tensor, shift: Tensor, shares: _Shares | None) -> Tensor:
        ctx.save_for_backward(value if shares is None else None, scale, shift)
        ctx.shares = shares
        return torch.addcmul(shift, value, scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        value, scale, shift = ctx.saved_tensors
        share = (gradients[0] * shift).sum(1, keepdim=True)
        down = gradients[0] * scale
        if ctx.shares is None:
            down = _toward(value, share, 1, down)
        else:
            ctx.shares.of = share if ctx.shares.of is None else ctx.shares.of + share
        return down, None, None, None


def _batch_norm(
    input: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    shape = (1, -1) + (1,) * (input.ndim - 2)
    scale, shift = _line(running_mean, running_var, weight, bias, eps)
    shares = getattr(input, "_shares", None)
    out: Tensor = _BatchNorm.apply(input, scale.view(shape), shift.view(shape), shares)
    return out


def _line(
    mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor]:
    """s and t (C,) of a batch norm at rest; remembered as long as its numbers stay what they are."""
    parts = [part for part in (mean, variance, weight, bias) if part is not None]
    state = (eps, *((part.data_ptr(), part._version) for part in parts))
    known: Any = _LINES.get(variance, None)  # type: ignore[no-untyped-call]
    if known is not None and known[0] == state:
        return known[1], known[2]
    with torch.no_grad():
        scale = torch.rsqrt(variance + eps) if weight is None else weight * torch.rsqrt(variance + eps)
        shift = -mean * scale if bias is None else bias - mean * scale
    _LINES[variance] = (state, scale, shift)
    return scale, shift


def _layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    dims = tuple(range(-len(normalized_shape), 0))
    deviation = input.detach().var(dims, keepdim=True, correction=0).add(eps).sqrt()
    out = (input - input.mean(dims, keepdim=True)) / deviation
    if weight is not None:
        out = out * weight
    if bias is not None:
        out = _BiasStay.apply(input, out, bias, (-1, -1))
    return _last(out) if len(normalized_shape) == 1 else out


def _group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    grouped = input.reshape(len(input), num_groups, -1)
    deviation = grouped.detach().var(-1, keepdim=True, correction=0).add(eps).sqrt()
    out = ((grouped - grouped.mean(-1, keepdim=True)) / deviation).view_as(input)
    shape = (1, -1) + (1,) * (input.ndim - 2)
    if weight is not None:
        out = out * weight.view(shape)
    if bias is not None:
        out = _BiasStay.apply(input, out, bias.view(shape), (1, 1))
    return out


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    with torch.no_grad():
        size = query.shape[-1] ** -0.5 if scale is None else scale
        if enable_gqa:
            key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        scores = query @ key.transpose(-2, -1) * size
        if is_causal:
            scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
        if attn_mask is not None:
            masked = attn_mask.dtype == torch.bool
            scores = scores.masked_fill(~attn_mask, float("-inf")) if masked else scores + attn_mask
        weights = scores.softmax(-1)
    if enable_gqa:
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    return weights @ value


def _multi_head(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """torch's own multi-head attention, with its weights held fixed."""
    names = [*("query", "key", "value", "embed_dim_to_check", "num_heads", "in_proj_weight", "in_proj_bias", "bias_k")]
    names += ["bias_v", "add_zero_attn", "dropout_p", "out_proj_weight", "out_proj_bias", "training"]
    given: dict[str, Any] = {**dict(zip(names, args, strict=False)), **kwargs}
    if given["bias_v"] is not None or given["add_zero_attn"] or given.get("static_v") is not None:
        raise UserError("SRD: attention with added keys and values is not followed. Use the rule 'gradient'.")
    with torch.no_grad():
        asked = {**given, "need_weights": True, "average_attn_weights": False}
        weights: Any = F.multi_head_attention_forward(**asked)[1]
    value, width, heads = given["value"], given["embed_dim_to_check"], given["num_heads"]
    packed, bias = given["in_proj_weight"], given["in_proj_bias"]
    matrix: Any = given.get("v_proj_weight") if given.get("use_separate_proj_weight") else packed[2 * width :]
    moved = _linear(value, matrix, None if bias is None else bias[2 * width :])  # (N, B, D)
    length, batch, _ = moved.shape
    split = moved.reshape(length, batch, heads, -1).permute(1, 2, 0, 3)
    mixed = (weights @ split).permute(2, 0, 1, 3).reshape(-1, batch, width)
    out = _linear(mixed, given["out_proj_weight"], given["out_proj_bias"])
    average = weights.mean(1) if given.get("average_attn_weights", True) else weights
    return out, (average if given.get("need_weights", True) else None)


class _Constant(Function):
    """x + c with a constant c, whose part stays at x's position."""

    @staticmethod
    def forward(ctx: Any, total: Tensor, source: Tensor, constant: Tensor) -> Tensor:
        ctx.save_for_backward(source, constant)
        return total.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        source, constant = ctx.saved_tensors
        share = (gradients[0] * constant).sum(-1, keepdim=True)
        return None, _toward(source, share, -1, gradients[0]), None


def _sum(out: Tensor, args: tuple[Any, ...]) -> Tensor:
    """A sum of tokens: of two branches, a layer of vectors; with position embeddings, a bias that stays in place."""
    first, second = args[0], args[1]
    live = [isinstance(part, Tensor) and part.requires_grad for part in (first, second)]
    if all(live):
        return _last(_Node.apply(out, out.detach(), -1))
    source, constant = (first, second) if live[0] else (second, first)
    if not isinstance(constant, Tensor) or source is out:
        return out
    return _last(_Constant.apply(out.detach(), source, constant.expand_as(out)))
