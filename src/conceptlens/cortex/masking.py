"""Do chosen tokens matter? Their pixels are hidden and independent judges look again (section 4.2, Fig. 4, Table 2).

The paper hides the positions it chose, 5 to 50 of an image, or every position that holds one of a concept's tokens; its
published code hides, for chosen ones too, every position with the same id (`ids`). Baselines: random positions, and the
most frequent tokens; the latter hide more, so they are also measured at an equal number of positions. Deletion hides
from the image, insertion uncovers from the fill; fills are those of `metrics/faithfulness/fill`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.cortex.token_sets import TokenSet, members
from conceptlens.evaluation.faithfulness.fill import filled

Judge = Callable[[Tensor], Tensor]  # images (n, 3, H, W) in [0, 1] → probabilities (n, C)
Hide = Literal["positions", "ids"]
Places = Callable[[Tensor], Tensor]  # marked tokens (B, h, w) → cells of the image, as `VQModel.places`
COUNTS = tuple(range(5, 55, 5))


def same_cells(marked: Tensor) -> Tensor:
    """Each token is one cell of the image, as of most models."""
    return marked


@dataclass(frozen=True)
class MaskingCurve:
    """A judge's mean probability of the images' own classes as more tokens are hidden or shown."""

    judge: str
    order: str  # importance, random, …
    counts: tuple[int, ...]  # chosen tokens, from 0
    deletion: tuple[float, ...]
    insertion: tuple[float, ...]
    hidden: tuple[float, ...]  # mean number of positions hidden; above the counts where ids are


@dataclass(frozen=True)
class SetMasking:
    """Table 2: what hiding a concept's tokens does to a judge."""

    judge: str
    tokens: str  # concept sets, frequency, random, …
    hidden: float  # positions an image
    accuracy: float  # before
    probability: float
    accuracy_change: float
    probability_change: float


def cover(images: Tensor, hidden: Tensor, fill: str) -> Tensor:
    """Images (B, 3, H, W) with marked positions (B, h, w) filled; each position is a rectangle of pixels."""
    mask = interpolate(hidden[:, None].to(images.dtype), images.shape[-2:], mode="nearest")
    return torch.lerp(images, filled(images, fill), mask)


def spread_ids(tokens: Tensor, chosen: Tensor) -> Tensor:
    """Every position of (B, h, w) whose token is, in the same image, that of a chosen position."""
    flat, marked = tokens.flatten(1), chosen.flatten(1)
    same = (flat[:, :, None] == flat[:, None, :]) & marked[:, None, :]
    return same.any(2).view_as(chosen)


@torch.no_grad()
def masking_curve(
    judges: Mapping[str, Judge],
    images: Tensor,
    tokens: Tensor,
    scores: Tensor,
    labels: Tensor,
    *,
    order: str = "importance",
    counts: Sequence[int] = COUNTS,
    fill: str = "black",
    hide: str = "positions",
    places: Places = same_cells,
    batch: int = 64,
) -> list[MaskingCurve]:
    """Figure 4: the highest scores first.

    Args:
        judges: Independently trained classifiers by name.
        images: (B, 3, H, W), decoded from the tokens.
        tokens: (B, h, w).
        scores: (B, h, w); random ones are the baseline.
        labels: (B,), the class in the judges' order.
        order: What the scores are, for the result.
        counts: How many tokens are chosen.
        fill: `black`, `mean` or `blur`.
        hide: The chosen `positions`, or all with their `ids`.
        places: Which cells of the image tokens cover.
        batch: Images judged at once.
    """
    if hide not in get_args(Hide):
        raise unknown_name("way to hide tokens", hide, get_args(Hide))
    cells = scores[0].numel()
    if not counts or min(counts) < 1 or max(counts) > cells:
        raise UserError(f"Numbers of hidden tokens must lie in 1 to {cells}; found {list(counts)}.")
    rank = scores.flatten(1).argsort(dim=1, descending=True, stable=True).argsort(1).view_as(scores)
    steps = (0, *counts)
    masks = [rank < count for count in steps]
    if hide == "ids":
        masks = [spread_ids(tokens, mask) for mask in masks]
    hidden = tuple(float(mask.flatten(1).sum(1).float().mean()) for mask in masks)
    curves = []
    for name, judge in judges.items():
        deletion = tuple(_mean(judge, images, places(mask), labels, fill, batch) for mask in masks)
        insertion = tuple(_mean(judge, images, ~places(mask), labels, fill, batch) for mask in masks)
        curves.append(MaskingCurve(name, order, steps, deletion, insertion, hidden))
    return curves


def _probabilities(judge: Judge, images: Tensor, hidden: Tensor, fill: str, batch: int) -> Tensor:
    parts = [
        judge(cover(some, mask, fill))
        for some, mask in zip(torch.split(images, batch), torch.split(hidden, batch), strict=True)
    ]
    return torch.cat(parts)


def _mean(judge: Judge, images: Tensor, hidden: Tensor, labels: Tensor, fill: str, batch: int) -> float:
    return float(_probabilities(judge, images, hidden, fill, batch).gather(1, labels[:, None]).mean())


def set_positions(tokens: Tensor, labels: Tensor, sets: Sequence[TokenSet], codes: int) -> Tensor:
    """The positions (B, h, w) that hold a token of the set of their image's concept."""
    hidden = torch.zeros(tokens.shape, dtype=torch.bool, device=tokens.device)
    for place, each in enumerate(sets):
        mine = labels == place
        hidden[mine] = members(tokens[mine], each.tokens, codes)
    return hidden


def random_positions(counts: Tensor, grid: tuple[int, int], seed: int) -> Tensor:
    """So many random positions an image, counts (B,): (B, h, w)."""
    draws = torch.rand(len(counts), grid[0] * grid[1], generator=torch.Generator().manual_seed(seed))
    rank = draws.argsort(1).argsort(1).to(counts.device)
    return (rank < counts[:, None]).view(-1, *grid)


def equal_positions(
    tokens: Tensor, labels: Tensor, sets: Sequence[TokenSet], codes: int, counts: Tensor, seed: int
) -> Tensor:
    """Positions (B, h, w) by a set's own order, exactly counts (B,) an image: what lacks is drawn at random."""
    order = torch.full((len(sets), codes), float(codes), device=tokens.device)
    for place, each in enumerate(sets):
        order[place, list(each.tokens)] = torch.arange(len(each.tokens), device=tokens.device, dtype=order.dtype)
    ranks = order[labels[:, None], tokens.flatten(1).long()]  # (B, L); not in the set: last
    jitter = torch.rand(ranks.shape, generator=torch.Generator().manual_seed(seed)).to(ranks.device)
    places = (ranks + jitter).argsort(1).argsort(1)
    return (places < counts[:, None]).view_as(tokens)


@torch.no_grad()
def mask_sets(
    judges: Mapping[str, Judge],
    images: Tensor,
    labels: Tensor,
    positions: Mapping[str, Tensor],
    *,
    fill: str = "black",
    places: Places = same_cells,
    batch: int = 64,
) -> list[SetMasking]:
    """Table 2 for several choices of positions (B, h, w), by name."""
    found = []
    for name, judge in judges.items():
        nothing = torch.zeros_like(next(iter(positions.values())))
        before = _probabilities(judge, images, nothing, fill, batch)
        accuracy, probability = _summary(before, labels)
        for kind, hidden in positions.items():
            after = _summary(_probabilities(judge, images, places(hidden), fill, batch), labels)
            found.append(
                SetMasking(
                    judge=name,
                    tokens=kind,
                    hidden=float(hidden.flatten(1).sum(1).float().mean()),
                    accuracy=accuracy,
                    probability=probability,
                    accuracy_change=after[0] - accuracy,
                    probability_change=after[1] - probability,
                )
            )
    return found


def _summary(probabilities: Tensor, labels: Tensor) -> tuple[float, float]:
    right = (probabilities.argmax(1) == labels).float().mean()
    return float(right), float(probabilities.gather(1, labels[:, None]).mean())


def probability_change(judge: Judge, before: Tensor, after: Tensor, classes: Tensor) -> Tensor:
    """Eq. 14: ΔP of a class (B,) between images before and after, (B,)."""
    with torch.no_grad():
        return (judge(after) - judge(before)).gather(1, classes[:, None])[:, 0]
