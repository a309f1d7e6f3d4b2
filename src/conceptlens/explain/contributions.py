"""What each concept adds to a class, exact where the class head is linear.

The logit of a class differs from that of an average image by Σ_k w_k (b_k − mean b_k), b being the bottleneck. Under a
softmax only differences between classes count, so weights are taken relative to their mean over the classes: a concept
that lifts all classes alike speaks for none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from conceptlens.data.loader import PixelReader
from conceptlens.models.contract import ConceptModel, Pipeline

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
REFERENCE = 128  # images that make the average image


@dataclass(frozen=True)
class Contributions:
    """To the logit of one class of each image."""

    values: Floats  # (n, K)
    average_of: int  # images in the average that they are compared with


def contributions(
    pipeline: Pipeline, reader: PixelReader, images: Indices, about: Sequence[int], reference: Indices
) -> Contributions | None:
    """What speaks for and against a class of each image; None where the head is not linear in the concepts.

    Args:
        pipeline: The trained pipeline.
        reader: Its pixels.
        images: (n,) positions in the source.
        about: (n,) the class in question of each.
        reference: Positions of the images whose average is compared with; some of them, evenly spread, are read.
    """
    average = spread(reference)
    seen = _bottleneck(pipeline, reader, np.concatenate([images, average]))
    weight = head_weight(pipeline.model, seen)
    if weight is None:
        return None
    if reader.source.task != "multilabel":
        weight = weight - weight.mean(0)
    scores = seen.double().cpu().numpy()
    return Contributions(weight[list(about)] * (scores[: len(images)] - scores[len(images) :].mean(0)), len(average))


def spread(indices: Indices, most: int = REFERENCE) -> Indices:
    """Some of the indices, evenly spread."""
    return indices[np.linspace(0, len(indices) - 1, min(most, len(indices))).round().astype(np.int64)]


@torch.inference_mode()
def _bottleneck(pipeline: Pipeline, reader: PixelReader, indices: Indices, batch: int = 32) -> Tensor:
    """What the class head reads of each image, (n, K)."""
    device = next(pipeline.parameters()).device
    was_training = pipeline.training
    pipeline.eval()
    pieces = (indices[start : start + batch] for start in range(0, len(indices), batch))
    read = [pipeline(pixels.to(device)).bottleneck.float() for _, pixels in reader.prefetch(pieces)]
    pipeline.train(was_training)
    return torch.cat(read)


@torch.inference_mode()
def head_weight(model: ConceptModel, bottleneck: Tensor) -> Floats | None:
    """The weight (C, K) with which a linear head reads the bottleneck (n, K); None if the head is another."""
    head = getattr(model, "head", None)
    if not isinstance(head, nn.Linear) or head.in_features != bottleneck.shape[1]:
        return None
    decided = model.decide(bottleneck)
    if decided.shape[1] != head.out_features or not torch.allclose(decided, head(bottleneck), rtol=1e-3, atol=1e-4):
        return None
    weight: Floats = head.weight.double().cpu().numpy()
    return weight
