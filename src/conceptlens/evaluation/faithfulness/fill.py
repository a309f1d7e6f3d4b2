"""What stands where something was taken away. No choice is neutral, so each result says which was made.

- black: zeros. Simple, and unlike any training image of a bright scene.
- mean: the image's own mean color.
- a color: the same for all images, as the mean color of the training images. It is the nearest to dropping a patch that
  every encoder allows: the patch stays in the sequence and says nothing of its image.
- blur: the image itself, blurred until its parts are gone (a Gaussian, σ a tenth of the side); nearest to what the
  model knows.
"""

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from conceptlens.core.errors import unknown_name

Fill = Literal["black", "mean", "blur"]
FILLS: tuple[Fill, ...] = get_args(Fill)
BLUR = 0.1  # σ, in sides of the image


def filled(images: Tensor, fill: str | Tensor) -> Tensor:
    """What to lay over images (B, 3, H, W) of values in [0, 1] where something shall vanish, (B, 3, H, W).

    Args:
        images: The images.
        fill: One of `FILLS`, or a color (3,).
    """
    if isinstance(fill, Tensor):
        return fill.to(images)[:, None, None].expand_as(images)
    if fill == "black":
        return torch.zeros_like(images)
    if fill == "mean":
        return images.mean((2, 3), keepdim=True).expand_as(images)
    if fill == "blur":
        return _blurred(images, BLUR * max(images.shape[-2:]))
    raise unknown_name("fill", fill, FILLS)


def _blurred(images: Tensor, sigma: float) -> Tensor:
    """A Gaussian blur, first along rows, then along columns; the edge goes on beyond the image."""
    reach = max(1, round(3 * sigma))
    offsets = torch.arange(-reach, reach + 1, device=images.device, dtype=images.dtype)
    kernel = torch.exp(-(offsets**2) / (2 * sigma**2))
    kernel = (kernel / kernel.sum()).expand(images.shape[1], 1, -1)
    channels = images.shape[1]
    wide = pad(images, (reach, reach, reach, reach), mode="replicate")
    along = conv2d(wide, kernel[:, :, None, :], groups=channels)
    return conv2d(along, kernel[:, :, :, None], groups=channels)
