"""Dictionaries side by side: the same lasso, the same λ, held-out features."""

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.gig.dictionaries.clusters import cluster
from conceptlens.gig.dictionaries.compare import compare_dictionaries, compare_sizes
from conceptlens.gig.dictionaries.concept_vectors import DictionaryKind, concept_vectors
from conceptlens.gig.dictionaries.lasso import decompose


def features(n: int, seed: int) -> torch.Tensor:
    """Around six directions."""
    generator = torch.Generator().manual_seed(seed)
    centers = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))
    size = 1 + torch.rand(n, 1, generator=generator)
    return size * centers[torch.arange(n) % 6] + 0.1 * torch.randn(n, 8, generator=generator) + 0.5


def test_every_dictionary_meets_the_same_lasso() -> None:
    train, held, shift = features(240, 1), features(30, 2), torch.full((8,), 0.5)
    found = compare_dictionaries("l", train, held, shift, 12, shares=(0.2, 0.05), epochs=2)
    assert [(row.dictionary, row.coding) for row in found[:2]] == [("clusters", "own"), ("clusters", "lasso")]
    curves = [row for row in found if row.coding == "lasso"]
    assert len({tuple(point.penalty for point in row.points) for row in curves}) == 1  # the same λ
    for row in curves:
        assert row.points[0].relative_l2 > row.points[1].relative_l2  # less penalty, less error
        assert row.points[0].used <= row.points[1].used + 1e-9
    unit = torch.nn.functional.normalize(cluster(train, 12, shift).concepts, dim=1)
    point = curves[0].points[1]
    u = decompose(held - shift, unit, point.penalty or 0).dense()
    error = torch.stack([(x - c @ unit - shift).norm() / x.norm() for x, c in zip(held, u, strict=True)]).mean()
    assert point.relative_l2 == pytest.approx(float(error), rel=1e-4)
    assert point.zero_share == pytest.approx(float((u == 0).float().mean()), abs=1e-6)


def test_sizes_are_in_channels() -> None:
    train, held = features(60, 1), features(30, 2)
    found = compare_sizes("l", train, held, torch.full((8,), 0.5), sizes=(0.5, 2, 8))
    assert [row.concepts for row in found] == [4, 16]  # 64 clusters of 60 samples are left out
    assert found[1].points[0].relative_l2 < found[0].points[0].relative_l2
    with pytest.raises(UserError, match="too few"):
        compare_sizes("l", train[:4], held, torch.zeros(8), sizes=(8,))
    with pytest.raises(UserError, match="clusters"):
        compare_dictionaries("l", train, held, torch.zeros(8), 4, makers=["cluster"])


@pytest.mark.parametrize("kind", ["clusters", "learned", "autoencoder"])
def test_each_vector_belongs_to_a_concept_of_its_dictionary(kind: DictionaryKind) -> None:
    vectors = torch.randn(90, 5, generator=torch.Generator().manual_seed(0)) + 2
    shift = torch.full((5,), 2.0)
    concepts, labels = concept_vectors(kind, vectors, shift, 8)
    assert concepts.shape == (8, 5)
    if kind == "clusters":  # the mean of its members
        for number in range(8):
            assert torch.allclose(concepts[number], (vectors - shift)[labels == number].mean(0), atol=1e-5)
        return
    for vector, label in zip(vectors - shift, labels.tolist(), strict=True):  # the nearest by cosine
        cosines = [float(vector @ concept / (vector.norm() * concept.norm())) for concept in concepts]
        assert max(range(8), key=cosines.__getitem__) == label
