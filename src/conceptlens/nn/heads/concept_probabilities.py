"""Concept logits to probabilities: one value of an exclusive axis holds, each value of an independent one may."""

from collections.abc import Sequence
from itertools import groupby

import torch
from torch import Tensor

from conceptlens.concepts import Group


def concept_probabilities(logits: Tensor, groups: Sequence[Group]) -> Tensor:
    """(B, K) → (B, K): softmax within an exclusive group, sigmoid otherwise."""
    shares = []
    for _, numbered in groupby(enumerate(groups), _run):
        run = [group for _, group in numbered]
        part = logits[:, run[0].concepts.start : run[-1].concepts.stop]
        shares.append(part.softmax(-1) if run[0].kind == "exclusive" else part.sigmoid())
    return shares[0] if len(shares) == 1 else torch.cat(shares, -1)


def _run(numbered: tuple[int, Group]) -> int:
    """Neighbours of one number are worked on together: independent groups, for each of which a kernel of its own would
    cost a GPU more than the work in it."""
    number, group = numbered
    return number if group.kind == "exclusive" else -1
