"""Inverted residual blocks with ReLU6, of which EfficientNet-Lite is built (Tan & Le, EfficientNet, 2019, table 1).

Padding is TensorFlow's SAME: where a stride leaves an odd number of pixels to pad, the larger half goes right and
below. There is no squeeze-and-excitation, and batch norms are folded into the convolutions.
"""

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn


class Stage(NamedTuple):
    """Blocks of one kind: how many, kernel, stride of the first, expansion, output channels."""

    depth: int
    kernel: int
    stride: int
    expansion: int
    width: int


LITE0 = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


class SameConv2d(nn.Conv2d):
    """A square convolution whose output has ceil(side / stride) pixels a side, padded as TensorFlow does."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1) -> None:
        # With stride 1 the padding is symmetric, and the convolution can do it itself.
        super().__init__(inputs, outputs, kernel, stride, kernel // 2 if stride == 1 else 0, groups=groups)

    def forward(self, x: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        if stride > 1:
            down, across = (max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in x.shape[-2:])
            x = F.pad(x, (across // 2, across - across // 2, down // 2, down - down // 2))
        return super().forward(x)


class InvertedResidual(nn.Module):
    """Widen (1 × 1), look around (depthwise), narrow (1 × 1); the input is added where the shape allows."""

    def __init__(self, inputs: int, outputs: int, *, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expand = SameConv2d(inputs, inner, 1) if expansion > 1 else None
        self.depthwise = SameConv2d(inner, inner, kernel, stride=stride, groups=inner)
        self.project = SameConv2d(inner, outputs, 1)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, h, w) → (B, C', ⌈h / stride⌉, ⌈w / stride⌉)."""
        inner = x if self.expand is None else F.relu6(self.expand(x))
        out: Tensor = self.project(F.relu6(self.depthwise(inner)))
        return out + x if self.residual else out


def make_stage(stage: Stage, inputs: int) -> nn.Sequential:
    """The blocks of a stage; the first takes the stride and the `inputs` channels of the stage before."""
    kernel, expansion = stage.kernel, stage.expansion
    return nn.Sequential(
        InvertedResidual(inputs, stage.width, kernel=kernel, stride=stage.stride, expansion=expansion),
        *(
            InvertedResidual(stage.width, stage.width, kernel=kernel, stride=1, expansion=expansion)
            for _ in range(stage.depth - 1)
        ),
    )
