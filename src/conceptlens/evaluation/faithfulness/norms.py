"""Do maps sit on tokens of extreme norm? Large vision transformers keep notes in a few patches of the background, whose
norm stands out (Darcet et al., Vision transformers need registers, 2024); a map on them shows no place of the image."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from conceptlens.evaluation.localization.energy import as_mass

SHARE = 0.05  # of the patches: those with the highest norm


@contextmanager
def leaving(block: nn.Module) -> Iterator[list[Tensor]]:
    """What leaves a block: a final norm behind it would make all norms alike."""
    seen: list[Tensor] = []
    handle = block.register_forward_hook(lambda module, inputs, out: seen.append(out) if torch.is_tensor(out) else None)
    try:
        yield seen
    finally:
        handle.remove()


def highest_norm(tokens: Tensor, cells: int) -> Tensor:
    """Marks (B, cells) of the patches with the highest norm; of tokens (B, N, D) the last `cells` are the patches."""
    norms = tokens[:, -cells:].float().norm(dim=-1)
    count = max(1, round(SHARE * cells))
    marks = torch.zeros_like(norms)
    return marks.scatter(1, norms.topk(count, 1).indices, 1.0)


def mass_on(maps: Tensor, marks: Tensor) -> Tensor:
    """The share of maps (B, L) on marked cells (B, L), (B,)."""
    return (as_mass(maps) * marks).sum(-1)
