"""Batch normalization folded into the convolution before it: one operation fewer, and no statistics to keep.

At rest a batch norm is y = gamma (x - mean) / sqrt(var + eps) + beta, so with s = gamma / sqrt(var + eps)
a convolution W * x + b followed by it is the convolution (s W) * x + (s (b - mean) + beta).
"""

from collections.abc import Mapping

import torch
from torch import Tensor


def fold(
    weight: Tensor, bias: Tensor | None, *, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """A convolution and the batch norm after it as one convolution.

    Args:
        weight: (O, I, k, k).
        bias: (O,), or `None` for a convolution without one.
        gamma: (O,), the scale; likewise `beta`, the shift, and the running `mean` and `variance`.
        eps: What the batch norm adds to the variance.

    Returns:
        Weight (O, I, k, k) and bias (O,) in the precision of `weight`, computed in float64.
    """
    scale = gamma.double() / torch.sqrt(variance.double() + eps)
    start = torch.zeros_like(mean, dtype=torch.float64) if bias is None else bias.double()
    folded = weight.double() * scale.view(-1, 1, 1, 1)
    return folded.to(weight.dtype), (scale * (start - mean.double()) + beta.double()).to(weight.dtype)


def fold_named(state: Mapping[str, Tensor], convolution: str, norm: str, *, eps: float) -> tuple[Tensor, Tensor]:
    """`fold` for the modules of those names in a PyTorch state dict."""
    return fold(
        state[f"{convolution}.weight"],
        state.get(f"{convolution}.bias"),
        gamma=state[f"{norm}.weight"],
        beta=state[f"{norm}.bias"],
        mean=state[f"{norm}.running_mean"],
        variance=state[f"{norm}.running_var"],
        eps=eps,
    )
