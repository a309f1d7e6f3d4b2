"""Training large encoders in little memory: gradient checkpointing, and low-rank adapters (LoRA, Hu et al. 2022)."""

from typing import Any, Literal

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Encoder


class _Checkpointed(nn.Module):
    """Keeps only what enters the block and computes the rest again for the gradient; its weights keep their names."""

    def forward(self, *args: Any, **settings: Any) -> Any:
        inner = super().forward
        if not (self.training and torch.is_grad_enabled()):
            return inner(*args, **settings)
        return checkpoint(inner, *args, use_reentrant=False, **settings)


def checkpoint_blocks(encoder: Encoder) -> None:
    """Let every block through which gradients pass keep only its input."""
    first = next((k for k, block in enumerate(encoder.blocks()) if _learns(block)), None)
    if first is None:
        raise UserError("encoder.checkpointing: the encoder is frozen, so there are no gradients to save memory for.")
    for block in encoder.blocks()[first:]:
        # Another class, not another method: a copy of the block must not call the forward of the first.
        block.__class__ = type(f"Checkpointed{type(block).__name__}", (_Checkpointed, type(block)), {})


def _learns(block: nn.Module) -> bool:
    return any(parameter.requires_grad for parameter in block.parameters())


def add_lora(encoder: Encoder, train: Literal["all", "none"] | int, rank: int) -> None:
    """Freeze the encoder and add trained low-rank matrices to the linear layers of its last blocks.

    Args:
        encoder: As it starts; its output does not change until the adapters learn.
        train: The last n blocks, or all.
        rank: Of the matrices.
    """
    if train in ("none", 0):
        raise UserError("encoder.lora: adapters learn, but encoder.train is none. Set it to all or a number of blocks.")
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError:
        raise UserError("encoder.lora needs peft. Install it: pip install 'conceptlens[lora]'") from None
    blocks = list(encoder.blocks())
    chosen = blocks if train == "all" else blocks[-int(train) :]
    inside = {id(module) for block in chosen for module in block.modules()}
    names = [name for name, module in encoder.named_modules() if type(module) is nn.Linear and id(module) in inside]
    if not names:
        raise UserError(f"encoder.lora: {encoder.name} has no linear layers in its blocks. Leave encoder.lora at 0.")
    # Twice the rank is the usual scale: the adapters' rate then needs no change with the rank.
    inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=names), encoder)
    encoder.train(encoder.training)
