"""Classes from words alone: the image's text-aligned vector against the vectors of the classes' names.

A class's vector is the mean of the unit vectors of its name in a few sentences, at unit length; the class with the
largest cosine is the answer. Nothing is fitted.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.encoders.contract import TextEncoder
from conceptlens.evaluation.classification.balanced import balanced_accuracy
from pretraining.imagenet import NAMES, WNIDS
from pretraining.probe.sets import ImageSet

TEMPLATES = (
    "a photo of a {}",
    "a picture of a {}",
    "a close-up photo of a {}",
    "a photo of the {}",
    "a small photo of a {}",
    "a photo of one {}",
    "{}",
)


def class_vectors(names: Sequence[str], text: TextEncoder, templates: Sequence[str] = TEMPLATES) -> Tensor:
    """(C, D), unit length."""
    sentences = [template.format(name) for name in names for template in templates]
    vectors = text.embed(sentences).view(len(names), len(templates), -1)
    return F.normalize(vectors.mean(1), dim=1)


def wilson_interval(right: int, asked: int, z: float = 1.959964) -> tuple[float, float]:
    """Interval of a share at 95 % confidence (Wilson, 1927)."""
    share, square = right / asked, z * z
    middle = (share + square / (2 * asked)) / (1 + square / asked)
    half = z / (1 + square / asked) * (share * (1 - share) / asked + square / (4 * asked * asked)) ** 0.5
    return middle - half, middle + half


def measure_prompts(aligned: Tensor, images: ImageSet, text: TextEncoder) -> dict[str, Any]:
    """Accuracy on a set's test images whose classes are ImageNet's.

    Args:
        aligned: (N, D), the images' text-aligned vectors, of all images of the set in their order.
        images: The set; the values of its first question are wnids.
        text: Reads the names.
    """
    asked, test = images.questions[0], images.where("test")
    name_of = dict(zip(WNIDS, NAMES, strict=True))
    names = [name_of[wnid] for wnid in asked.values]
    cosines = F.normalize(aligned[torch.from_numpy(test)], dim=1) @ class_vectors(names, text).T
    predicted, truth = cosines.argmax(1).numpy(), asked.labels[test]
    low, high = wilson_interval(int((predicted == truth).sum()), len(test))
    shares = {
        name: float((predicted[truth == index] == index).mean())
        for index, name in enumerate(names)
        if (truth == index).any()
    }
    return {
        "images": len(test),
        "accuracy": float(np.mean(predicted == truth)),
        "interval": [low, high],
        "balanced_accuracy": balanced_accuracy(predicted, truth, len(names)),
        "chance": 1 / len(names),
        "templates": list(TEMPLATES),
        "by_class": shares,
    }
