"""Concepts of more vectors than memory holds: clusters of some of them, then means and labels over all.

A part of the vectors, as many as fit, is clustered as ever (`concept_vectors`). Clusters are then refined over all
vectors, which pass by in chunks: each goes to the concept nearest by cosine, and a concept becomes the mean of its
vectors. This is a step of spherical k-means; two of them follow. Dictionaries that are no clusters keep their vectors.
What it costs against clustering all at once is measured in evidence/real-models.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.gig.dictionaries.clusters import cluster_number
from conceptlens.gig.dictionaries.concept_vectors import DictionaryKind, concept_vectors

MOST_NUMBERS = 2**28  # of the vectors in memory: 1 GB
PASSES = 2


class Vectors(Protocol):
    """Vectors on disk."""

    def __len__(self) -> int: ...

    def chunks(self) -> Iterator[tuple[int, Tensor]]: ...

    def take(self, rows: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class LargeConcepts:
    """Concepts of vectors that were never all in memory."""

    vectors: Tensor  # (k, C)
    labels: Tensor  # (N,)
    nearest: Tensor  # (k, m) rows, best first
    cosines: Tensor  # (k, m)
    some: Tensor  # (n, C) the shifted vectors that were clustered
    mean_cosine: float  # of all vectors with their concept


def large_concepts(
    kind: DictionaryKind,
    features: Vectors,
    shift: Tensor,
    k: int | None,
    number: int,
    *,
    seed: int = 0,
    most: int = MOST_NUMBERS,
) -> LargeConcepts:
    """Concepts of vectors on disk.

    Args:
        kind: Where concept vectors come from.
        features: The vectors.
        shift: μ_BN, (C,).
        k: How many concepts; by default as many as of all vectors, if the part in memory has so many.
        number: Nearest vectors of each concept.
        seed: Which vectors are clustered, and how.
        most: Numbers of vectors that may be in memory.
    """
    n, channels = len(features), len(shift)
    part = max(min(n, most // channels), 1)
    rows = torch.randperm(n, generator=torch.Generator().manual_seed(seed))[:part].sort().values
    some = features.take(rows).to(shift)
    k = k or min(cluster_number(channels, n), part // 2)
    concepts, _ = concept_vectors(kind, some, shift, k, seed=seed)
    for _ in range(PASSES if kind == "clusters" else 0):
        concepts = _step(concepts, features, shift)
    labels = torch.empty(n, dtype=torch.int64)
    unit = F.normalize(concepts, dim=1)
    best, where = torch.full((len(unit), 0), -2.0), torch.zeros((len(unit), 0), dtype=torch.int64)
    total = 0.0
    for start, chunk in features.chunks():
        cosine = F.normalize(chunk.to(shift) - shift, dim=1) @ unit.T
        top = cosine.max(1)
        labels[start : start + len(chunk)] = top.indices.cpu()
        total += float(top.values.double().sum())
        near = cosine.T.topk(min(number, len(chunk)), dim=1)
        best = torch.cat([best, near.values.cpu()], 1)
        where = torch.cat([where, near.indices.cpu() + start], 1)
        order = best.argsort(dim=1, descending=True, stable=True)[:, :number]
        best, where = best.gather(1, order), where.gather(1, order)
    return LargeConcepts(concepts, labels, where, best, some - shift, total / n)


def _step(concepts: Tensor, features: Vectors, shift: Tensor) -> Tensor:
    """One step of spherical k-means over all vectors; a concept that no vector is nearest to stays."""
    unit = F.normalize(concepts, dim=1)
    sums, counts = torch.zeros_like(concepts), concepts.new_zeros(len(concepts))
    for _, chunk in features.chunks():
        centered = chunk.to(shift) - shift
        label = (F.normalize(centered, dim=1) @ unit.T).argmax(1)
        sums.index_add_(0, label, centered)
        counts += torch.bincount(label, minlength=len(counts)).to(counts)
    return torch.where(counts[:, None] > 0, sums / counts.clamp_min(1)[:, None], concepts)
