"""Concept vectors of a layer: the means of clusters of its vectors (GIG paper, Sec. 3.2.1, App. B).

Vectors are shifted by μ_BN and brought to unit length, then split in two again and again, the largest cluster first,
until there are k: see `bisecting`. A concept vector is the mean of its cluster's shifted vectors.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.gig.dictionaries.bisecting import bisect

CHUNK = 4096  # vectors whose sums are made at once


@dataclass(frozen=True)
class Clusters:
    """k clusters of N vectors."""

    concepts: Tensor  # (k, C) means of the shifted vectors; add `shift` for the place in the layer
    labels: Tensor  # (N,)
    sizes: Tensor  # (k,)
    shift: Tensor  # (C,)
    mean_cosine: float  # of the vectors with the direction of their cluster

    def nearest(self, features: Tensor, number: int = 10) -> tuple[Tensor, Tensor]:
        """The vectors most like each concept: their rows (k, number) and cosines, best first; its crop."""
        return nearest(self.concepts, features - self.shift, number)


def cluster_number(channels: int, samples: int, most: int = 8192) -> int:
    """k = min(8 C, 8192, samples / 6): Sec. 4 and Appendix I, with six samples a cluster or more."""
    return max(1, min(8 * channels, most, samples // 6))


def cluster(features: Tensor, k: int | None = None, shift: Tensor | None = None, *, seed: int = 0) -> Clusters:
    """Concept vectors of a layer.

    Args:
        features: (N, C) pointwise feature vectors.
        k: How many; by default `cluster_number`.
        shift: μ_BN (C,); zero by default.
        seed: Of the vectors that 2-means starts from.

    Raises:
        UserError: Fewer vectors, or fewer different directions, than clusters; numbers that are not finite.
    """
    if features.ndim != 2 or not features.is_floating_point():
        raise UserError(f"Clusters: expected vectors (N, C), got {tuple(features.shape)} of {features.dtype}.")
    n, channels = features.shape
    k = cluster_number(channels, n) if k is None else k
    if not 1 <= k <= n:
        raise UserError(f"Clusters: {k} clusters of {n} vectors. Sample more vectors, or ask for fewer clusters.")
    shift = features.new_zeros(channels) if shift is None else shift.to(features)
    centered = features - shift
    size = torch.linalg.vector_norm(centered, dim=1, keepdim=True).clamp_min(torch.finfo(features.dtype).tiny)
    if not bool(size.isfinite().all()):
        raise UserError("Clusters: some vectors hold numbers that are not finite (NaN or infinity).")
    labels = bisect(centered, k, size, seed=seed)
    counts = torch.bincount(labels, minlength=k)
    means, sums = features.new_zeros(k, channels), features.new_zeros(k, channels)
    for some in torch.split(torch.arange(n, device=features.device), CHUNK):
        means.index_add_(0, labels[some], centered[some])
        sums.index_add_(0, labels[some], centered[some] / size[some])
    cosine = float(torch.linalg.vector_norm(sums.double(), dim=1).sum() / n)
    return Clusters(means / counts[:, None], labels, counts, shift, cosine)


def segment_sums(values: Tensor, labels: Tensor, k: int) -> Tensor:
    """Sums (k, C) of the rows with each label."""
    return values.new_zeros(k, values.shape[1]).index_add_(0, labels, values)


def nearest(concepts: Tensor, vectors: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """For each concept (k, C), the rows of the vectors (N, C) with the highest cosine: (k, number) rows and cosines."""
    unit = torch.nn.functional.normalize(vectors, dim=1)
    rows, values = [], []
    for some in torch.split(torch.nn.functional.normalize(concepts, dim=1), 1024):
        best = (some @ unit.T).topk(min(number, len(unit)), dim=1)
        rows.append(best.indices)
        values.append(best.values)
    return torch.cat(rows), torch.cat(values)
