"""Logits to probabilities, the same everywhere: classes exclude each other unless the task is multi-label; within an
exclusive concept group one value holds, in an independent group each value may."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import expit, softmax
from torch import Tensor

from conceptlens.concepts import ConceptSet, Group
from conceptlens.data.dataset import Task
from conceptlens.stats.finite import finite

Floats = npt.NDArray[np.float64]


def concept_probabilities(logits: Tensor, groups: Sequence[Group]) -> Tensor:
    """(B, K) → (B, K): softmax within an exclusive group, sigmoid otherwise."""
    shares = []
    for _, numbered in groupby(enumerate(groups), _run):
        run = [group for _, group in numbered]
        part = logits[:, run[0].concepts.start : run[-1].concepts.stop]
        shares.append(part.softmax(-1) if run[0].kind == "exclusive" else part.sigmoid())
    if not shares:
        return logits
    return shares[0] if len(shares) == 1 else torch.cat(shares, -1)


def _run(numbered: tuple[int, Group]) -> int:
    """Neighbors of one number are worked on together: independent groups, for each of which a kernel of its own would
    cost a GPU more than the work in it."""
    number, group = numbered
    return number if group.kind == "exclusive" else -1


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


def class_probabilities(logits: npt.ArrayLike, task: Task) -> Floats:
    """Class logits (N, C) as probabilities: softmax, or a sigmoid each for a multi-label task."""
    values = finite(np.asarray(logits, dtype=np.float64), "class scores")
    if task == "multilabel":
        return np.asarray(expit(values))
    return np.asarray(softmax(values, axis=1)) if values.size else values
