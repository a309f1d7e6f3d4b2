"""Random changes of whole batches, on the device where they are: one affine resampling and one color change.

What is drawn depends on seed, epoch, step and place in the batch only: a resumed run draws the same.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.data.loading.transfer import send
from conceptlens.recipes import AugmentConfig


@dataclass(frozen=True)
class Draw:
    """What happens to each of B images."""

    affine: Tensor  # (B, 2, 3), output → input coordinates in [−1, 1]
    color: Tensor  # (B, 3): factors of brightness, contrast, saturation
    recolors: bool = True  # whether any factor can be other than 1

    def __getitem__(self, part: slice) -> "Draw":
        return replace(self, affine=self.affine[part], color=self.color[part])

    def to(self, device: torch.device) -> "Draw":
        """On the images' device, in one copy."""
        sent = send(torch.cat((self.affine.flatten(1), self.color), 1), device)
        return replace(self, affine=sent[:, :6].view(-1, 2, 3), color=sent[:, 6:])


def draw(config: AugmentConfig, batch: int, key: tuple[int, ...]) -> Draw:
    """Draw for a batch; `key` is (seed, epoch, step)."""
    u = torch.from_numpy(np.random.default_rng(list(key)).random((batch, 9), dtype=np.float32))
    area = config.crop + (1 - config.crop) * u[:, 0]
    ratio = torch.exp((2 * u[:, 1] - 1) * (0.2877 if config.crop < 1 else 0.0))  # width : height from 3:4 to 4:3
    width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    x, y = (2 * u[:, 2] - 1) * (1 - width), (2 * u[:, 3] - 1) * (1 - height)
    mirror = torch.where((u[:, 4] < 0.5) & torch.tensor(config.flip_horizontal), -1.0, 1.0)
    upside = torch.where((u[:, 5] < 0.5) & torch.tensor(config.flip_vertical), -1.0, 1.0)
    angle = torch.deg2rad((2 * u[:, 6] - 1) * config.rotate)
    cos, sin = angle.cos(), angle.sin()
    rows = (
        torch.stack((width * mirror * cos, -width * upside * sin, x), -1),
        torch.stack((height * mirror * sin, height * upside * cos, y), -1),
    )
    spread = torch.tensor([config.brightness, config.contrast, config.saturation])
    colors = torch.from_numpy(np.random.default_rng([*key, 1]).random((batch, 3), dtype=np.float32))
    recolors = max(config.brightness, config.contrast, config.saturation) > 0
    return Draw(torch.stack(rows, 1), 1 + (2 * colors - 1) * spread, recolors)


def to_unit(images: Tensor) -> Tensor:
    """Bytes (B, 3, H, W) to values in [0, 1]."""
    return images.float().div_(255)


def augment(images: Tensor, drawn: Draw) -> Tensor:
    """Bytes (B, 3, H, W) → changed images in [0, 1], on the images' device, where what was drawn must be too."""
    values = to_unit(images)
    grid = F.affine_grid(drawn.affine, list(values.shape), align_corners=False)
    values = F.grid_sample(values, grid, mode="bilinear", padding_mode="reflection", align_corners=False)
    if drawn.recolors:
        brightness, contrast, saturation = drawn.color.view(-1, 3, 1, 1, 1).unbind(1)
        values = values * brightness
        mean = values.mean((1, 2, 3), keepdim=True)
        values = mean + contrast * (values - mean)
        gray = values.mean(1, keepdim=True)
        values = (gray + saturation * (values - gray)).clamp_(0, 1)
    return values
