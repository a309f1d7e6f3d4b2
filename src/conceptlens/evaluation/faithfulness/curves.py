"""Insertion and deletion (Petsiuk et al., RISE, 2018): how fast a score falls or rises along a map's order of cells.

Deletion takes cells away from the image, the map's most important first, and fills them (see `fill`); insertion starts
with the fill alone and puts them back in the same order. A faithful map makes the first curve fall early (a small area
below it) and the second rise early (a large one). A random order of the same cells is the baseline.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from conceptlens.evaluation.faithfulness.fill import filled

Score = Callable[[Tensor], Tensor]  # images (n, 3, H, W) → scores (n, K)


@dataclass(frozen=True)
class Curves:
    """Scores of B images as cells go or come."""

    share: Tensor  # (T + 1,): of the cells that have gone or come, from 0 to 1
    deletion: Tensor  # (B, T + 1)
    insertion: Tensor  # (B, T + 1)

    @property
    def deletion_area(self) -> Tensor:
        """Area under the deletion curve, (B,): small is faithful."""
        return torch.trapezoid(self.deletion, self.share)

    @property
    def insertion_area(self) -> Tensor:
        """Area under the insertion curve, (B,): large is faithful."""
        return torch.trapezoid(self.insertion, self.share)


@torch.no_grad()
def insertion_deletion(
    score: Score,
    images: Tensor,
    maps: Tensor,
    concepts: Tensor,
    grid: tuple[int, int],
    *,
    fill: str | Tensor = "blur",
    steps: int = 14,
    batch: int = 64,
    ends: tuple[Tensor, Tensor] | None = None,
) -> Curves:
    """Both curves of one concept of each image.

    Args:
        score: Scores of all concepts.
        images: (B, 3, H, W) of values in [0, 1].
        maps: (B, L), the concept's map of each image; of equal cells the first goes first.
        concepts: (B,), whose score is followed.
        grid: (h, w) of the map.
        fill: `black`, `mean`, `blur` or a color (3,).
        steps: T, into which the cells are divided as evenly as they can be.
        batch: Images scored at once.
        ends: Scores (B, K) of the images and of the fill alone, where they are known: the same for all maps.
    """
    cells = maps.shape[1]
    steps = max(1, min(steps, cells))
    counts = torch.linspace(0, cells, steps + 1, device=maps.device).round()
    rank = maps.argsort(dim=1, descending=True, stable=True).argsort(1)  # 0: the most important cell
    gone = rank[:, None] < counts[None, 1:-1, None]  # (B, T − 1, L): between the whole image and the fill alone
    cover = filled(images, fill)
    if ends is None:
        ends = score(images), score(cover)
    whole, nothing = (scores.gather(1, concepts[:, None]) for scores in ends)
    falling, rising = (_scores(score, images, cover, removed, concepts, grid, batch) for removed in (gone, ~gone))
    return Curves(counts / cells, torch.cat([whole, falling, nothing], 1), torch.cat([nothing, rising, whole], 1))


def random_orders(count: int, cells: int, seed: int) -> Tensor:
    """Maps (count, cells) whose order is random: the baseline of both curves."""
    return torch.rand(count, cells, generator=torch.Generator().manual_seed(seed))


def _scores(
    score: Score, images: Tensor, cover: Tensor, gone: Tensor, concepts: Tensor, grid: tuple[int, int], batch: int
) -> Tensor:
    """Scores (B, n) of images without the marked cells (B, n, L), a batch at a time."""
    count, steps, _ = gone.shape
    if not steps:
        return images.new_zeros(count, 0)
    image = torch.arange(count, device=images.device).repeat_interleave(steps)
    flat = gone.flatten(0, 1)
    found = []
    for rows in torch.split(torch.arange(len(flat), device=images.device), batch):
        mask = interpolate(flat[rows].view(-1, 1, *grid).to(images.dtype), images.shape[-2:], mode="nearest")
        which = image[rows]
        changed = torch.lerp(images[which], cover[which], mask)
        found.append(score(changed).gather(1, concepts[which, None])[:, 0])
    return torch.cat(found).view(count, steps)
