"""Sampling from a masked-token transformer: all positions hidden at first, the surest kept at each step (MaskGIT)."""

import math

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.cortex.editing.gumbel import gumbel_noise
from conceptlens.cortex.generators.builtin.transformer import MaskedTransformer


def hidden_at(step: int, steps: int, cells: int) -> int:
    """How many positions are still hidden after a step, from 0: a cosine from nearly all to none."""
    return math.floor(cells * math.cos(math.pi / 2 * (step + 1) / steps) + 1e-9)


@torch.no_grad()
def sample_tokens(
    transformer: MaskedTransformer,
    codebook: Tensor,
    conditions: Tensor,
    *,
    cells: int,
    steps: int = 12,
    guidance: float = 1.5,
    temperature: float = 1.0,
    choice: float = 4.5,
    seed: int = 0,
) -> Tensor:
    """Tokens (n, L) for conditions (n, A).

    Args:
        transformer: In evaluation mode.
        codebook: (K, d).
        conditions: As `MaskedTransformer.indices` gives them.
        cells: L.
        steps: Passes.
        guidance: How far logits are moved away from those of the null condition; grows from 0 to this over the steps.
        temperature: Of the draws.
        choice: How random it is, at first, which positions are kept; falls to 0.
        seed: Of all draws.
    """
    if steps < 1 or temperature <= 0:
        raise UserError(f"Sampling needs at least one step and a temperature above 0; found {steps}, {temperature}.")
    device, n = codebook.device, len(conditions)
    generator = torch.Generator(device).manual_seed(seed)
    tokens = torch.zeros(n, cells, dtype=torch.int64, device=device)
    masked = torch.ones(n, cells, dtype=torch.bool, device=device)
    guided = guidance > 0 and bool((conditions >= 0).any())
    asked, place = torch.unique(conditions, dim=0, return_inverse=True)

    def logits_for(conditions: Tensor, rows: slice, share: float) -> Tensor:
        seen = tokens[rows], masked[rows]
        logits: Tensor = transformer(*seen, conditions, codebook).float()
        if guided:
            plain = transformer(*seen, torch.full_like(conditions, -1), codebook).float()
            logits = logits + guidance * share * (logits - plain)
        return logits

    for step in range(steps):
        share = (step + 1) / steps
        # At first all is hidden everywhere: images differ in their condition only, and mostly not in that.
        if step == 0:
            logits = logits_for(asked, slice(len(asked)), share)[place]
        else:
            logits = logits_for(conditions, slice(None), share)
        logits = logits / temperature
        drawn = (logits + gumbel_noise(logits.shape, generator, device)).argmax(-1)
        sure = logits.log_softmax(-1).gather(2, drawn[..., None])[..., 0]
        sure = sure + choice * (1 - share) * gumbel_noise(sure.shape, generator, device)
        tokens = torch.where(masked, drawn, tokens)
        sure = torch.where(masked, sure, torch.inf)  # what is kept once stays
        left = hidden_at(step, steps, cells)
        rank = sure.argsort(dim=1, stable=True).argsort(1)
        masked = masked & (rank < left)
    return tokens
