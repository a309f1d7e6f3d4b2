"""A convolutional stem: images to a grid of patch vectors, one for every 8 × 8 pixels.

Three 3 × 3 convolutions of stride 2 in place of one 8 × 8 patch projection make a small ViT learn from few images
(Xiao et al., Early Convolutions Help Transformers See Better, 2021).
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

STRIDE = 8


class _NormGELU(nn.Module):
    """LayerNorm over the channels of every position, then GELU.

    Batch norm would couple the images of a batch, so two processes would learn otherwise than one; a norm over the
    whole image would carry news from one patch to all others. This does neither, and is as fast in channels-last order.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, maps: Tensor) -> Tensor:
        return F.gelu(self.norm(maps.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)


class ConvStem(nn.Module):
    """(B, 3, H, W) → (B, ⌈H/8⌉, ⌈W/8⌉, D)."""

    def __init__(self, stem_width: int, width: int) -> None:
        super().__init__()
        channels = (3, stem_width, 2 * stem_width, width)
        layers: list[nn.Module] = []
        for before, after in pairwise(channels):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1, bias=False), _NormGELU(after)]
        self.layers = nn.Sequential(*layers, nn.Conv2d(width, width, 1))

    def forward(self, images: Tensor) -> Tensor:
        # Channels-last input is enough for the fast kernels; weights keep the plain order in which files store them.
        maps: Tensor = self.layers(images.contiguous(memory_format=torch.channels_last))
        return maps.permute(0, 2, 3, 1)
