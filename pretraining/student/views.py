"""Random views of stored images, drawn and rendered on the accelerator in whole batches."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class ViewStyle:
    """How far a view may stray from its image.

    Args:
        scale: Smallest share of the image's area that a crop keeps.
        turns: Draw quarter turns and both flips (a cell has no upright), or a left-right flip alone.
        color: How far brightness, contrast and saturation may change, as a fraction; see `jitter`.
        gray: Share of views without color.
    """

    scale: float = 0.35
    turns: bool = False
    color: float = 0.4
    gray: float = 0.1


def draw_views(number: int, style: ViewStyle, generator: torch.Generator) -> Tensor:
    """Affine maps (number, 2, 3) from a view's coordinates in [−1, 1] to the image's."""
    device = generator.device

    def uniform(low: float, high: float) -> Tensor:
        return torch.rand(number, generator=generator, device=device) * (high - low) + low

    area = uniform(style.scale, 1.0)
    ratio = torch.exp(uniform(math.log(3 / 4), math.log(4 / 3)))
    wide = (area * ratio).sqrt().clamp(max=1.0)
    high = (area / ratio).sqrt().clamp(max=1.0)
    x, y = (1 - wide) * uniform(-1, 1), (1 - high) * uniform(-1, 1)
    flip = torch.where(uniform(0, 1) < 0.5, -1.0, 1.0)
    quarter = (uniform(0, 4) if style.turns else uniform(0, 1) * 0).floor() * (math.pi / 2)
    cos, sin = quarter.cos().round(), quarter.sin().round()
    maps = torch.zeros(number, 2, 3, device=device)
    maps[:, 0, 0], maps[:, 0, 1], maps[:, 0, 2] = wide * cos * flip, -wide * sin, x
    maps[:, 1, 0], maps[:, 1, 1], maps[:, 1, 2] = high * sin * flip, high * cos, y
    return maps


def whole_views(number: int, device: torch.device) -> Tensor:
    """The maps of views that show the whole image as it is."""
    return torch.eye(2, 3, device=device).expand(number, 2, 3)


def render(pixels: Tensor, maps: Tensor, size: int) -> Tensor:
    """Views (n, 3, size, size) in [0, 1] of images of bytes (n, 3, side, side), bilinear, edges repeated."""
    grid = F.affine_grid(maps, [len(maps), 3, size, size], align_corners=False)
    images = pixels.float().div_(255)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False).clamp_(0, 1)


def mix(
    views: list[Tensor], labels: dict[str, Tensor], share: float, generator: torch.Generator
) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Blend a share of the views, the same ones at every size, with another view each.

    Teachers judge blends as they are, so a student that sees few images again and again still gets new questions (Beyer
    et al., 2022). A blend has no true class: its `trust` becomes 0. What has no class (`label` −1) is left alone.
    """
    label = labels["label"]
    draws = torch.rand(3, len(label), generator=generator, device=label.device)
    partner = draws[0].argsort()
    blended = (draws[1] < share) & (label >= 0) & (label[partner] >= 0)
    weight = torch.where(blended, draws[2], 1.0).view(-1, 1, 1, 1)
    mixed = [weight * view + (1 - weight) * view[partner] for view in views]
    return mixed, {**labels, "trust": torch.where(blended, 0.0, labels["trust"])}


def jitter(images: Tensor, color: Tensor, gray: Tensor, generator: torch.Generator) -> Tensor:
    """Change brightness, contrast and saturation of images in [0, 1] by factors up to 1 ± `color` (n,) each.

    A share `gray` (n,) of the images loses its color.
    """
    number = len(images)
    draws = torch.rand(4, number, 1, 1, 1, generator=generator, device=images.device)
    factors = 1 + color.view(1, -1, 1, 1, 1) * (2 * draws[:3] - 1)
    weights = torch.tensor([0.299, 0.587, 0.114], device=images.device).view(1, 3, 1, 1)
    images = images * factors[0]
    images = (images - images.mean((1, 2, 3), keepdim=True)) * factors[1] + images.mean((1, 2, 3), keepdim=True)
    light = (images * weights).sum(1, keepdim=True)
    saturation = torch.where(draws[3] < gray.view(-1, 1, 1, 1), 0.0, factors[2])
    return (light + (images - light) * saturation).clamp(0, 1)
