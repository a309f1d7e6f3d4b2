"""The concept orthogonal loss of coop-CBM (Sheth and Kahou, NeurIPS 2023): images with the same label shall have
vectors that point the same way, images with different labels vectors at right angles.

    L = (1 − d₁) + λ d₂,   d₁: mean of cos(q_i, q_j) over pairs with the same label, d₂: with different ones

A pair's sums follow from the sums of each label's unit vectors u: Σ_{i,j ∈ m} u_i·u_j = ‖Σ_{i ∈ m} u_i‖². So all
concepts together cost B · K · D, and no table of pairs is made. Pairs are those of the batch, over all processes; where
a batch is cut by `training.accumulate`, those of each piece.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.concepts import UNKNOWN
from conceptlens.data.dataset import UNLABELED
from conceptlens.nn.regularizers.global_sum import global_sum


def orthogonal_loss(vectors: Tensor, members: Tensor, apart: float) -> Tensor:
    """The loss of each question, (T,); 0 for the part of it that has no pair.

    Args:
        vectors: q, (B, D).
        members: (B, T, M): 1 where an image has answer m to question t; a row of zeros where nobody knows.
        apart: λ.
    """
    with torch.autocast(vectors.device.type, enabled=False):
        unit, members = F.normalize(vectors.float(), dim=-1), members.float()
        sums = global_sum(torch.einsum("btm,bd->tmd", members, unit))
        counts = global_sum(members.sum(0))  # (T, M)
        known = counts.sum(-1)
        own = global_sum(torch.einsum("btm,b->t", members, unit.square().sum(-1)))  # of an image with itself
        together = sums.square().sum((-1, -2))
        same, same_pairs = together - own, counts.square().sum(-1) - known
        different = sums.sum(-2).square().sum(-1) - together
        different_pairs = known.square() - counts.square().sum(-1)
        near = torch.where(same_pairs > 0, 1 - same / same_pairs.clamp_min(1), 0.0)
        return near + apart * different / different_pairs.clamp_min(1)


def concept_members(labels: Tensor) -> Tensor:
    """Concept labels (B, K) of 0, 1, UNKNOWN as answers, (B, K, 2)."""
    known = labels != UNKNOWN
    return torch.stack(((labels == 0) & known, (labels == 1) & known), -1)


def class_members(labels: Tensor, classes: int) -> Tensor:
    """Class labels as answers: (B,) to one question with C answers, (B, 1, C); (B, C) to C yes/no questions."""
    if labels.ndim == 2:
        return concept_members(labels)
    answers = F.one_hot(labels.clamp_min(0), classes) * (labels != UNLABELED).unsqueeze(-1)
    return answers.unsqueeze(1)
