"""The published code's concept loss of MVP-CBM, by hand and as PyTorch computes what that code writes."""

import math

import pytest
import torch
from torch.nn import functional as F

from conceptlens.concepts import ConceptSet
from conceptlens.nn.losses.batch_softmax import batch_softmax_loss

LABELS = torch.tensor([[1, 0, 0, 1, 1], [0, 1, 1, 0, 0], [0, 1, -1, -1, 1]])


def test_by_hand(concepts: ConceptSet) -> None:
    """Axis `size`: images 2 and 3 have its second value, number 1. The scores are those of the first concept."""
    scores = torch.zeros(3, 5)
    scores[:, 0] = torch.tensor([0.0, math.log(2), math.log(5)])  # shares 1/8, 2/8, 5/8 of the batch
    size = -(math.log(2 / 8) + math.log(5 / 8))
    color = -math.log(1 / 3)  # image 1 has its second value; concept number 1, of `size`, scores 0 everywhere
    assert float(batch_softmax_loss(scores, LABELS, concepts.groups)) == pytest.approx((size + color) / 2)


def test_as_written_in_the_published_code(concepts: ConceptSet) -> None:
    scores = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    numbers = torch.tensor([[0, 1], [1, 0], [1, 0]])  # of each image's value on each exclusive axis; unknown: 0
    expected = sum(F.cross_entropy(scores[:, axis], numbers[:, axis].float()) for axis in range(2)) / 2
    torch.testing.assert_close(batch_softmax_loss(scores, LABELS, concepts.groups), expected)


def test_it_does_not_ask_an_image_for_its_value(concepts: ConceptSet) -> None:
    """One image alone cannot be wrong: its share of the batch is 1 whatever it scores."""
    scores = torch.randn(1, 5, generator=torch.Generator().manual_seed(0))
    assert float(batch_softmax_loss(scores, LABELS[1:2], concepts.groups)) == 0


def test_without_exclusive_axes_there_is_nothing_to_say(concepts: ConceptSet) -> None:
    scores = torch.randn(3, 5, requires_grad=True)
    loss = batch_softmax_loss(scores, LABELS, [group for group in concepts.groups if group.kind == "independent"])
    assert loss.item() == 0
    loss.backward()
