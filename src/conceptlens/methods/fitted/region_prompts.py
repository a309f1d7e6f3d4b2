"""What points an image-text encoder at one region of an image: a red circle around it, or the region alone.

The circle is the visual prompt of SALF-CBM (section 3.2), after A. Shtedritski et al.: What does CLIP know about a red
circle? (ICCV 2023).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Prompt = Literal["circle", "crop"]


@dataclass(frozen=True)
class RegionPrompts:
    """Regions around the centers of g × g cells; `radius` and `line` in sides of the image."""

    prompt: Prompt
    side: int  # g
    radius: float
    line: float = 1 / 56  # of the circle: 4 of 224 pixels

    @property
    def count(self) -> int:
        return self.side**2

    def centers(self) -> Iterator[tuple[float, float]]:
        """(y, x) of each region in sides of the image, row by row."""
        for row in range(self.side):
            for column in range(self.side):
                yield (row + 0.5) / self.side, (column + 0.5) / self.side

    def __call__(self, images: Tensor) -> Tensor:
        """Images (B, 3, H, W) of bytes or in [0, 1] → (B, G, 3, H, W) in [0, 1], one of each region."""
        values = images.float() / 255 if images.dtype == torch.uint8 else images
        point = self._circle if self.prompt == "circle" else self._crop
        return torch.stack([point(values, *center) for center in self.centers()], 1)

    def _circle(self, images: Tensor, y: float, x: float) -> Tensor:
        height, width = images.shape[-2:]
        rows = (torch.arange(height, device=images.device) + 0.5) / height - y
        columns = (torch.arange(width, device=images.device) + 0.5) / width - x
        ring = (torch.hypot(rows[:, None], columns[None]) - self.radius).abs() <= self.line / 2
        red = torch.tensor([1.0, 0.0, 0.0], device=images.device).to(images.dtype)[:, None, None]
        return torch.where(ring, red, images)

    def _crop(self, images: Tensor, y: float, x: float) -> Tensor:
        """The square of the circle's diameter, cut where it leaves the image, at the image's size."""
        size = images.shape[-2:]
        rows, columns = (self._around(center, length) for center, length in zip((y, x), size, strict=True))
        return F.interpolate(images[..., rows, columns], size, mode="bilinear", align_corners=False)

    def _around(self, center: float, length: int) -> slice:
        """The pixels within the radius along one side, one at least."""
        start = min(max(round((center - self.radius) * length), 0), length - 1)
        return slice(start, max(round((center + self.radius) * length), start + 1))
