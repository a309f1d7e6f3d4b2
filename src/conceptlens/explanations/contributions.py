"""What each concept adds to a class, exact where the class head is linear.

The logit of a class differs from that of an average image by Σ_k w_k (b_k − mean b_k), b being the bottleneck. Under a
softmax only differences between classes count, so weights are taken relative to their mean over the classes: a concept
that lifts all classes alike speaks for none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from conceptlens.methods.contract import ConceptModel
from conceptlens.methods.linear_head import head_weight

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Contributions:
    """To the logit of one class of each image."""

    values: Floats  # (n, K)
    average_of: int  # images in the average that they are compared with


def contributions(
    model: ConceptModel, scores: npt.NDArray[np.floating[Any]], rows: Indices, about: Sequence[int], *, softmax: bool
) -> Contributions | None:
    """What speaks for and against a class of some images; None where the head is not linear in the concepts.

    Args:
        model: The trained bottleneck.
        scores: (N, K) what the class head read of N images, whose average each image is compared with.
        rows: (n,) which of them are in question.
        about: (n,) the class in question of each.
        softmax: Whether the classes exclude each other.
    """
    weight = head_weight(model, torch.as_tensor(scores))
    if weight is None:
        return None
    if softmax:
        weight = weight - weight.mean(0)
    exact = scores.astype(np.float64)
    return Contributions(weight[list(about)] * (exact[rows] - exact.mean(0)), len(scores))
