"""The concept orthogonal loss against numbers worked out by hand and against a loop over all pairs."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.nn.losses.orthogonal import class_members, concept_members, orthogonal_loss


def naive(vectors: Tensor, labels: Tensor, apart: float) -> float:
    """All pairs of two images whose label is known, one after the other."""
    same, different = [], []
    for i in range(len(vectors)):
        for j in range(len(vectors)):
            if i == j or labels[i] == -1 or labels[j] == -1:
                continue
            cosine = float(F.cosine_similarity(vectors[i].double(), vectors[j].double(), dim=0))
            (same if labels[i] == labels[j] else different).append(cosine)
    near = 1 - sum(same) / len(same) if same else 0.0
    return near + (apart * sum(different) / len(different) if different else 0.0)


def test_by_hand() -> None:
    """Two images at 60° share a label, a third lies at right angles to the first and at 30° to the second."""
    half = math.sqrt(3) / 2
    vectors = torch.tensor([[2.0, 0.0], [0.5, half], [0.0, 3.0]])
    loss = orthogonal_loss(vectors, concept_members(torch.tensor([[1], [1], [0]])), apart=0.5)
    assert loss.tolist() == pytest.approx([(1 - 0.5) + 0.5 * (0 + half) / 2])


def test_every_concept_and_every_class_like_a_loop_over_pairs() -> None:
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(9, 5, generator=generator)
    concepts = torch.randint(-1, 2, (9, 4), generator=generator)
    concepts[:, 3] = 1  # no pair that differs
    found = orthogonal_loss(vectors, concept_members(concepts), 0.3)
    assert found.tolist() == pytest.approx([naive(vectors, concepts[:, k], 0.3) for k in range(4)], abs=1e-5)
    classes = torch.tensor([0, 0, 1, 2, 2, 2, -1, 1, 0])
    found = orthogonal_loss(vectors, class_members(classes, 4), 0.5)
    assert found.tolist() == pytest.approx([naive(vectors, classes, 0.5)], abs=1e-5)


def test_several_classes_an_image_are_questions_each() -> None:
    labels = torch.tensor([[1, 0], [1, 1], [0, -1]])
    assert torch.equal(class_members(labels, 2), concept_members(labels))


def test_no_pair_no_loss_and_a_gradient_without_nan() -> None:
    vectors = torch.zeros(2, 3, requires_grad=True)
    loss = orthogonal_loss(vectors, concept_members(torch.tensor([[-1, 1], [-1, -1]])), 0.5)
    assert loss.tolist() == [0.0, 0.0]
    loss.sum().backward()
    assert bool(vectors.grad.isfinite().all())
    assert orthogonal_loss(torch.zeros(0, 3), concept_members(torch.zeros(0, 2)), 0.5).tolist() == [0.0, 0.0]


def test_going_down_parts_the_labels() -> None:
    """At the minimum images with one label agree, and those with different ones are opposed: λ d₂ has no floor at 0."""
    vectors = torch.randn(8, 4, generator=torch.Generator().manual_seed(2), requires_grad=True)
    members = concept_members(torch.tensor([[0], [1]] * 4))
    optimizer = torch.optim.Adam([vectors], lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        orthogonal_loss(vectors, members, 0.5).sum().backward()
        optimizer.step()
    assert orthogonal_loss(vectors, members, 0.5).item() == pytest.approx(-0.5, abs=1e-2)
