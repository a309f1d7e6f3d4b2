"""Logits to probabilities, the same everywhere: classes exclude each other unless the task is multi-label; within an
exclusive concept group one value holds, in an independent group each value may."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import expit, softmax
from torch import Tensor

from conceptlens.concepts import ConceptSet, Group
from conceptlens.stats.finite import finite

if TYPE_CHECKING:
    from conceptlens.data.dataset import Task

Floats = npt.NDArray[np.float64]


def concept_probabilities(logits: Tensor, groups: Sequence[Group]) -> Tensor:
    """(B, K) → (B, K): softmax within an exclusive group, sigmoid otherwise."""
    shares = [
        logits[:, start:stop].softmax(-1) if exclusive else logits[:, start:stop].sigmoid()
        for start, stop, exclusive in _spans(groups)
    ]
    if not shares:
        return logits
    return shares[0] if len(shares) == 1 else torch.cat(shares, -1)


def _spans(groups: Sequence[Group]) -> list[tuple[int, int, bool]]:
    """From, to, and whether exclusive. Independent neighbors are one span: a kernel of its own for each would cost a
    GPU more than the work in it. (A plain loop: torch.export cannot follow `groupby`.)"""
    spans: list[tuple[int, int, bool]] = []
    for group in groups:
        start, stop, exclusive = group.concepts.start, group.concepts.stop, group.kind == "exclusive"
        if spans and not exclusive and not spans[-1][2]:
            start = spans.pop()[0]
        spans.append((start, stop, exclusive))
    return spans


def concept_probabilities_of(logits: npt.ArrayLike, concepts: ConceptSet) -> Floats:
    """`concept_probabilities` of an array (N, K), in double precision."""
    values = torch.from_numpy(np.asarray(logits, dtype=np.float64))
    return np.asarray(concept_probabilities(values, concepts.groups).numpy())


def concept_labels_of(logits: npt.ArrayLike, concepts: ConceptSet) -> npt.NDArray[np.int8]:
    """The labels (N, K) that logits (N, K) give: the likeliest value of an exclusive group, yes from 0.5 on."""
    shares = concept_probabilities_of(logits, concepts)
    labels = (shares >= 0.5).astype(np.int8)
    for group in concepts.groups:
        if group.kind == "exclusive":
            part = shares[:, group.concepts]
            labels[:, group.concepts] = np.arange(part.shape[1]) == part.argmax(1)[:, None]
    return labels


def class_probabilities(logits: npt.ArrayLike, task: "Task") -> Floats:
    """Class logits (N, C) as probabilities: softmax, or a sigmoid each for a multi-label task."""
    values = finite(np.asarray(logits, dtype=np.float64), "class scores")
    if task == "multilabel":
        return np.asarray(expit(values))
    return np.asarray(softmax(values, axis=1)) if values.size else values
