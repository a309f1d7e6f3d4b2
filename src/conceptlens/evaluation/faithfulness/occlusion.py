"""Occlusion of parts: does a concept's score change more when its own part is hidden than when another one is?

Attention may point at a part whose pixels the score does not need: a transformer's patches have seen the whole image.
Here pixels are hidden, so the answer does not depend on any map.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from conceptlens.evaluation.faithfulness.fill import filled

Score = Callable[[Tensor], Tensor]  # images (n, 3, H, W) → scores (n, K)


@dataclass(frozen=True)
class Occlusion:
    """Changes of each concept's score in B images, NaN where its part or every other one is not seen."""

    own: Tensor  # (B, K): its own part hidden
    others: Tensor  # (B, K): mean over the other parts, each hidden alone
    wins: Tensor  # (B, K): the share of the others that change it less; a tie is half


@torch.no_grad()
def occlude_parts(score: Score, images: Tensor, masks: Tensor, *, fill: str = "blur", batch: int = 64) -> Tensor:
    """How far scores move, |Δ| (B, R, K), as each of R parts is hidden.

    Args:
        score: Scores of all concepts.
        images: (B, 3, H, W) of values in [0, 1].
        masks: (B, R, H, W) from 0 to 1: each part.
        fill: `black`, `mean` or `blur`.
        batch: Images scored at once.
    """
    count, parts = masks.shape[:2]
    before = torch.cat([score(some) for some in torch.split(images, batch)])
    cover = filled(images, fill)
    image = torch.arange(count, device=images.device).repeat_interleave(parts)
    flat = masks.flatten(0, 1).to(images.dtype)
    after = [
        score(torch.lerp(images[image[rows]], cover[image[rows]], flat[rows][:, None]))
        for rows in torch.split(torch.arange(len(flat), device=images.device), batch)
    ]
    return (torch.cat(after).view(count, parts, -1) - before[:, None]).abs()


def own_against_others(change: Tensor, seen: Tensor, part_of: Tensor) -> Occlusion:
    """The change by a concept's own part beside that by the others.

    Args:
        change: (B, R, K) of `occlude_parts`.
        seen: (B, R): which parts there are to hide.
        part_of: (K,): the part that each concept speaks of; negative for one that speaks of none.
    """
    rows = torch.arange(change.shape[1], device=change.device)
    mine = rows[:, None] == part_of[None, :]  # (R, K)
    other = seen[:, :, None] & ~mine
    count = other.sum(1)
    own = (change * mine).sum(1)
    known = (seen[:, :, None] & mine).any(1) & (count > 0)
    beaten = (change < own[:, None]).to(change.dtype) + (change == own[:, None]).to(change.dtype) / 2

    def mean(values: Tensor) -> Tensor:
        return torch.where(known, torch.where(other, values, 0).sum(1) / count.clamp(min=1), torch.nan)

    return Occlusion(torch.where(known, own, torch.nan), mean(change), mean(beaten))
