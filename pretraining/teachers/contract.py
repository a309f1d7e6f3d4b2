"""What a teacher of the image tower is: pixels in, logits, a pooled vector and a grid of features out."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class TeacherOutput:
    """What a teacher says of a batch; `None` where it has nothing to say.

    Attributes:
        logits: (B, 1000), before the softmax, classes in the order of the sorted wnids.
        pooled: (B, C), the vector the classifier reads.
        grid: (B, C, h, w), features in place.
    """

    logits: Tensor | None = None
    pooled: Tensor | None = None
    grid: Tensor | None = None


class Teacher(nn.Module, ABC):
    """A frozen network that resizes and normalizes for itself.

    Attributes:
        name: Its weights lie in `NAME.safetensors`.
        size: Side in pixels to which images are resized; may be set after loading.
        mean: Of an RGB image in [0, 1], a number a channel.
        std: Likewise.
    """

    name: ClassVar[str]
    mean: ClassVar[tuple[float, float, float]] = IMAGENET_MEAN
    std: ClassVar[tuple[float, float, float]] = IMAGENET_STD
    size: int
    _mean: Tensor
    _std: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("_mean", torch.tensor(self.mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("_std", torch.tensor(self.std).view(1, 3, 1, 1), persistent=False)

    def prepare(self, images: Tensor) -> Tensor:
        """Resize (bilinear, antialiased) and normalize, in float32; then the precision of the weights.

        Args:
            images: (B, 3, H, W), RGB in [0, 1].

        Returns:
            (B, 3, size, size) in channels-last memory, which convolutions on a GPU prefer.
        """
        if images.ndim != 4 or images.shape[1] != 3 or not images.is_floating_point():
            shape = tuple(images.shape)
            raise ValueError(f"{self.name}: expected float images (B, 3, H, W) in [0, 1], got {images.dtype} {shape}.")
        pixels = images.float()
        if pixels.shape[-2:] != (self.size, self.size):
            pixels = F.interpolate(pixels, size=(self.size, self.size), mode="bilinear", antialias=True)
        pixels = (pixels - self._mean.float()) / self._std.float()
        dtype = next(self.parameters()).dtype
        return pixels.to(dtype=dtype, memory_format=torch.channels_last)

    def forward(self, images: Tensor) -> TeacherOutput:
        """(B, 3, H, W), RGB in [0, 1], any size, to what the teacher says of them."""
        return self.features(self.prepare(images))

    @abstractmethod
    def features(self, pixels: Tensor) -> TeacherOutput:
        """From normalized pixels (B, 3, size, size)."""


class Classifier(Teacher):
    """A teacher whose logits are linear in the mean of its grid."""

    classifier: nn.Linear

    def where(self, grid: Tensor, classes: Tensor) -> Tensor:
        """How much each place (B, h, w) of a grid (B, C, h, w) speaks for a distribution over classes (B, 1000).

        Class activation maps (Zhou et al., 2016), less what speaks for every class alike.
        """
        weights = self.classifier.weight.float()
        return torch.einsum("bchw,bc->bhw", grid.float(), classes.float() @ weights - weights.mean(0))
