"""Tokens drawn from logits: temperature, then the k most probable, then the nucleus of mass p."""

import torch
from torch import Tensor

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.settings import Sampling


def kept_logits(logits: Tensor, sampling: Sampling) -> Tensor:
    """Logits (…, V) of what may be drawn; −∞ for the rest."""
    logits = logits.float() / (sampling.temperature or 1.0)
    if sampling.top_k and sampling.top_k < logits.shape[-1]:
        least = logits.topk(sampling.top_k).values[..., -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if sampling.top_p is not None and sampling.top_p < 1:
        order = logits.argsort(dim=-1, descending=True, stable=True)
        shares = logits.gather(-1, order).softmax(-1)
        before = shares.cumsum(-1) - shares  # mass of all that is more probable
        outside = torch.zeros_like(before, dtype=torch.bool).scatter(-1, order, before >= sampling.top_p)
        logits = logits.masked_fill(outside, -torch.inf)
    return logits


def draw_tokens(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> Tensor:
    """One token (…) for each row of logits (…, V)."""
    shares = kept_logits(logits, sampling).softmax(-1)
    return torch.multinomial(shares.flatten(0, -2), 1, generator=generator).view(logits.shape[:-1])


def class_number(condition: Condition | None, classes: tuple[str, ...], model: str) -> int | None:
    """The class that a condition names; None for the null condition."""
    if condition is None or (condition.class_name is None and not condition.attributes):
        return None
    if condition.attributes:
        raise UserError(f"{model} knows classes only, no attributes.")
    if condition.class_name not in classes:
        raise unknown_name("class", str(condition.class_name), classes)
    return classes.index(str(condition.class_name))
