"""Maps that see the image and none of its concepts: what an object gives away by itself.

- darkness: how dark a cell is, or how bright where that finds the part better in other images;
- color_distance: how far a cell's colors are from the median color along the image's edge;
- token_pca: the first principal component of the encoder's tokens of other images, without any concept head; either
  way round, whichever finds the part better in other images.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from conceptlens.evaluation.localization.precision import average_precision
from conceptlens.nn.grounding.pca_foreground import principal_components, stretched

DARKNESS, COLOR, PCA = "darkness", "color_distance", "token_pca"
MODEL_FREE = (DARKNESS, COLOR, PCA)
EDGE = 1 / 16  # of a side: the frame whose median color counts as background


def darkness_maps(images: Tensor, grid: tuple[int, int]) -> Tensor:
    """Images (B, 3, H, W) in [0, 1] → maps (B, L) in [0, 1], the darkest cell 1."""
    return stretched(-adaptive_avg_pool2d(images.mean(1, keepdim=True), grid).flatten(1))


def color_distance_maps(images: Tensor, grid: tuple[int, int]) -> Tensor:
    """Images (B, 3, H, W) in [0, 1] → maps (B, L) in [0, 1]: the mean distance of a cell's pixels, in RGB."""
    height, width = images.shape[-2:]
    frame = torch.ones(height, width, dtype=torch.bool, device=images.device)
    y, x = max(1, round(EDGE * height)), max(1, round(EDGE * width))
    frame[y : height - y, x : width - x] = False
    background = images[:, :, frame].median(-1).values
    away = (images - background[..., None, None]).norm(dim=1, keepdim=True)
    return stretched(adaptive_avg_pool2d(away, grid).flatten(1))


@dataclass(frozen=True)
class ImageMaps:
    """Fitted on other images than the judged ones."""

    grid: tuple[int, int]
    mean: Tensor  # (D,) of all tokens
    direction: Tensor  # (D,) their first principal component
    signs: dict[str, Tensor]  # (R,) of 1 and −1 by map: which way round it finds each part

    def plain(self, images: Tensor, patches: Tensor) -> dict[str, Tensor]:
        """The three maps (B, L) the right way up, before any sign."""
        return {
            DARKNESS: darkness_maps(images, self.grid),
            COLOR: color_distance_maps(images, self.grid),
            PCA: stretched((patches.float() - self.mean) @ self.direction),
        }

    def __call__(self, images: Tensor, patches: Tensor) -> dict[str, Tensor]:
        """The maps of R parts, (B, R, L) each, of images (B, 3, H, W) in [0, 1] and their tokens (B, L, D)."""
        return {
            name: torch.where(self.signs[name][None, :, None] > 0, maps[:, None], 1 - maps[:, None])
            for name, maps in self.plain(images, patches).items()
        }


def fit_image_maps(
    images: Sequence[Tensor], patches: Sequence[Tensor], cover: Tensor, seen: Tensor, grid: tuple[int, int]
) -> ImageMaps:
    """Choose directions on other images.

    Args:
        images: Batches (B, 3, H, W) in [0, 1].
        patches: Their tokens, (B, L, D).
        cover: (N, R, L) of all of them: the share of each cell that each part covers.
        seen: (N, R): which parts there are.
        grid: (h, w).
    """
    tokens = torch.cat([some.float() for some in patches])
    mean = tokens.mean((0, 1))
    direction = principal_components((tokens - mean).flatten(0, 1)[None], 1)[0, :, 0]
    parts = cover.shape[1]
    both_ways = {name: torch.ones(parts, device=tokens.device) for name in MODEL_FREE}
    found = ImageMaps(grid, mean, direction, both_ways)
    made = [found.plain(*batch) for batch in zip(images, patches, strict=True)]
    for name in (DARKNESS, PCA):
        maps = torch.cat([each[name] for each in made])[:, None].expand_as(cover)
        up, down = (_mean_precision(values, cover, seen) for values in (maps, 1 - maps))
        both_ways[name] = torch.where(down > up, -1.0, 1.0)
    return found


def _mean_precision(maps: Tensor, cover: Tensor, seen: Tensor) -> Tensor:
    """Mean average precision over the images that show a part, (R,)."""
    values = torch.where(seen, average_precision(maps, cover), 0)
    return values.sum(0) / seen.sum(0).clamp(min=1)
