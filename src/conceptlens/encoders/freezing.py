"""What of an encoder learns, and a hash that says which weights it has."""

import hashlib
from typing import Literal

import torch
from torch import nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Encoder


def set_trainable(encoder: Encoder, train: Literal["all", "none"] | int) -> None:
    """Let all of an encoder learn, nothing, or its last n blocks and what follows them.

    Frozen parts stay in evaluation mode, whatever `encoder.train()` is told (see `Encoder.train`).
    """
    everything = train == "all"
    if not everything and train != "none" and (isinstance(train, bool) or not isinstance(train, int) or train < 0):
        raise UserError(f"encoder.train: expected 'all', 'none' or a number of blocks, got {train!r}.")
    encoder.requires_grad_(everything)
    if isinstance(train, int) and train > 0:
        blocks = list(encoder.blocks())
        if train > len(blocks):
            raise UserError(
                f"encoder.train: asked for the last {train} blocks, but {encoder.name} has {len(blocks)}. "
                f"Use a number up to {len(blocks)}, or 'all'."
            )
        for module in [*blocks[-train:], *encoder.tail()]:
            module.requires_grad_(True)
    for head in encoder.heads():
        head.requires_grad_(False)
    encoder.train(encoder.training)


def weights_hash(encoder: nn.Module) -> str:
    """A short hash over names, types, shapes and bytes of all weights: equal weights, equal hash."""
    digest = hashlib.sha256()
    for name, value in sorted(encoder.state_dict().items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]
