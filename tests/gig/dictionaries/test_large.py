"""Concepts of vectors on disk: close to those of all vectors at once, with the same labels and nearest samples."""

from collections.abc import Iterator

import torch
from torch import Tensor

from conceptlens.gig.dictionaries.clusters import cluster, nearest
from conceptlens.gig.dictionaries.large import large_concepts


class OnDisk:
    def __init__(self, vectors: Tensor) -> None:
        self.vectors, self.most = vectors, 0

    def __len__(self) -> int:
        return len(self.vectors)

    def chunks(self) -> Iterator[tuple[int, Tensor]]:
        for start in range(0, len(self), 70):
            yield start, self.vectors[start : start + 70]

    def take(self, rows: Tensor) -> Tensor:
        self.most = max(self.most, len(rows))
        return self.vectors[rows]


def test_a_part_in_memory_gives_nearly_the_clusters_of_all() -> None:
    torch.manual_seed(0)
    centers = torch.randn(12, 8)
    vectors = centers.repeat(50, 1) + 0.15 * torch.randn(600, 8)
    shift = torch.full((8,), 0.3)
    disk = OnDisk(vectors + shift)
    large = large_concepts("clusters", disk, shift, 12, 5, most=150 * 8)
    whole = cluster(vectors + shift, 12, shift)
    assert disk.most == 150
    assert large.mean_cosine > 0.98 * whole.mean_cosine
    # labels, nearest samples and means by hand
    unit = torch.nn.functional.normalize(large.vectors, dim=1)
    cosine = torch.nn.functional.normalize(vectors, dim=1) @ unit.T
    assert torch.equal(large.labels, cosine.argmax(1))
    rows, values = nearest(large.vectors, vectors, 5)
    assert torch.equal(large.nearest, rows)
    torch.testing.assert_close(large.cosines, values)
    torch.testing.assert_close(torch.tensor(large.mean_cosine), cosine.amax(1).mean(), rtol=1e-5, atol=1e-6)


def test_a_step_moves_a_concept_to_the_mean_of_its_vectors() -> None:
    """Two directions: the mean of (1, 0.1) and (3, 0.1) is (2, 0.1), that of (0.2, 1) and (0.4, 1) is (0.3, 1)."""
    disk = OnDisk(torch.tensor([[1.0, 0.1], [3.0, 0.1], [0.2, 1.0], [0.4, 1.0]]))
    large = large_concepts("clusters", disk, torch.zeros(2), 2, 1)
    vectors = large.vectors[large.vectors[:, 0].argsort(descending=True)]
    torch.testing.assert_close(vectors, torch.tensor([[2.0, 0.1], [0.3, 1.0]]))
