"""The concept loss in MVP-CBM's published code: a softmax across the images of a batch.

The code gives `cross_entropy` a vector of one score per image, and as its target the *number* of each image's value.
PyTorch takes such a pair as one sample with B classes and the target as their probabilities. So for group a

    L_a = − Σ_b y_ba log softmax_b(s_ba),

y_ba = 0, 1, 2, … for the group's first, second, third … value, and s_·a is the score of the a-th *concept*, not of one
that belongs to group a. It asks no image which value it shows; images with later values shall score higher than others.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from conceptlens.concepts import Group


def batch_softmax_loss(scores: Tensor, labels: Tensor, groups: Sequence[Group]) -> Tensor:
    """Mean of L_a over the exclusive groups, a scalar; 0 if there is none. Unknown labels have y = 0.

    Args:
        scores: (B, K).
        labels: (B, K) of 0, 1, UNKNOWN.
        groups: The groups, whose columns those of the labels are.
    """
    logs = scores.float().log_softmax(0)
    terms = []
    for at, group in enumerate(groups):
        if group.kind != "exclusive":
            continue
        values = labels[:, group.concepts].clamp_min(0).to(logs.dtype)
        number = (values * torch.arange(values.shape[1], device=logs.device)).sum(1)
        terms.append(-(number * logs[:, at]).sum())
    return torch.stack(terms).mean() if terms else scores.sum() * 0
