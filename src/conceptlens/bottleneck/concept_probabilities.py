"""Concept logits to probabilities: one value of an exclusive axis holds, each value of an independent one may."""

from collections.abc import Sequence

import torch
from torch import Tensor

from conceptlens.concepts import Group


def concept_probabilities(logits: Tensor, groups: Sequence[Group]) -> Tensor:
    """(B, K) → (B, K): softmax within an exclusive group, sigmoid otherwise."""
    parts = [logits[:, group.concepts] for group in groups]
    shares = [
        part.softmax(-1) if group.kind == "exclusive" else part.sigmoid()
        for part, group in zip(parts, groups, strict=True)
    ]
    return torch.cat(shares, -1)
