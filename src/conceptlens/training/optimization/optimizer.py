"""AdamW over every parameter that learns, each exactly once: training refuses to start otherwise.

The published IVQ-CBM forgot both codebooks here, and they stayed at their random start.
"""

import torch
from torch import nn
from torch.optim import AdamW, Optimizer

from conceptlens.core.errors import UserError
from conceptlens.methods.contract import Pipeline
from conceptlens.recipes import EncoderConfig, TrainingConfig

NO_DECAY = ("queries", "codebook", "position", "class_token", "cls_token", "pos_embed", "register")


def build_optimizer(
    pipeline: Pipeline, training: TrainingConfig, encoder: EncoderConfig, learning_rate: float
) -> AdamW:
    """Groups by rate and decay. A parameter's `rate` multiplies the stage's; the encoder may have a rate of its own."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in pipeline.named_parameters():
        if not parameter.requires_grad:
            continue
        base = (
            encoder.learning_rate
            if name.startswith("encoder.") and encoder.learning_rate is not None
            else learning_rate
        )
        spared = parameter.ndim < 2 or any(word in name for word in NO_DECAY)
        key = (
            base * float(getattr(parameter, "rate", 1.0)),
            0.0 if spared and training.decay == "matrices" else training.weight_decay,
        )
        groups.setdefault(key, []).append(parameter)
    if not groups:
        raise UserError(
            "Nothing would learn: every parameter is frozen in this stage. Check encoder.train and training.stages."
        )
    return AdamW(
        [{"params": group, "lr": lr, "peak": lr, "weight_decay": decay} for (lr, decay), group in groups.items()],
        betas=(training.betas[0], training.betas[1]),
        fused=True,
    )


def check_optimizer(pipeline: nn.Module, optimizer: Optimizer) -> None:
    """Every parameter that requires a gradient is in the optimizer exactly once, and nothing else is."""
    held: dict[int, int] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            held[id(parameter)] = held.get(id(parameter), 0) + 1
    learning = {name: parameter for name, parameter in pipeline.named_parameters() if parameter.requires_grad}
    missing = [name for name, parameter in learning.items() if id(parameter) not in held]
    twice = [name for name, parameter in learning.items() if held.get(id(parameter), 0) > 1]
    strangers = len(set(held) - {id(parameter) for parameter in learning.values()})
    if missing or twice or strangers:
        raise UserError(
            "The optimizer does not hold every learning parameter exactly once: "
            f"missing {missing or 'none'}, twice {twice or 'none'}, {strangers} that do not learn: a bug in the method."
        )


def set_rate(optimizer: Optimizer, factor: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * factor


def clip_gradients(parameters: list[nn.Parameter], largest: float) -> torch.Tensor:
    """Scale the gradient down to a norm of `largest`; 0 leaves it. Returns the norm before."""
    return nn.utils.clip_grad_norm_(parameters, largest if largest > 0 else float("inf"))
