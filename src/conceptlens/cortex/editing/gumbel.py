"""Hard Gumbel-softmax straight through to codes (CORTEX paper, Eq. 6, 9 to 13), without a one-hot matrix.

Forward: the code of argmax(log p + g).  Backward: as if the codes had been mixed by y = softmax((log p + g) / τ), with
∂y_i / ∂log p_k = y_i (δ_ik − y_k) / τ. Only y is kept for it.
"""

from typing import Any

import torch
from torch import Tensor


def gumbel_noise(shape: torch.Size, generator: torch.Generator | None, device: torch.device) -> Tensor:
    """Independent draws of Gumbel(0, 1): −log of an exponential variable."""
    return torch.empty(shape, device=device).exponential_(generator=generator).log_().neg_()


class _Select(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, noise: Tensor, codebook: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        noisy = noise.add_(logits)
        chosen = noisy.argmax(-1)
        soft = torch.softmax(noisy.div_(temperature), -1)
        ctx.save_for_backward(soft, codebook)
        ctx.temperature = temperature
        ctx.mark_non_differentiable(chosen)
        return codebook[chosen], chosen

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
        soft, codebook = ctx.saved_tensors
        to_soft = gradient @ codebook.T
        mean = torch.einsum("...k,...k->...", soft, to_soft)[..., None]
        return to_soft.sub_(mean).mul_(soft).div_(ctx.temperature), None, None, None


def select_codes(
    logits: Tensor, codebook: Tensor, temperature: float, noise: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Codes (…, d) drawn by logits (…, K) from a codebook (K, d), and their ids (…).

    Args:
        logits: log p, up to a constant; receives the straight-through gradient.
        codebook: C.
        temperature: τ.
        noise: Gumbel noise of the logits' shape, which is used up; none draws the most probable code.
    """
    noise = torch.zeros_like(logits) if noise is None else noise
    vectors, chosen = _Select.apply(logits, noise, codebook, temperature)
    return vectors, chosen
