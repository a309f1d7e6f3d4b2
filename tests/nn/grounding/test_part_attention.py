"""Part attention against a version with keys and values of every patch (Eq. 2 and 3), and its losses by hand."""

import math

import pytest
import torch
from torch.nn import functional as F

from conceptlens.nn.grounding.gaussian_prior import patch_centers
from conceptlens.nn.grounding.part_attention import PartAttention, alignment_loss, attention_entropy, centroids


def test_equations_2_and_3() -> None:
    torch.manual_seed(0)
    attend = PartAttention(3, 8, 4).double()
    patches, bias = torch.randn(2, 6, 8).double(), torch.randn(2, 3, 6).double()
    attend.requires_grad_(False)
    queries = attend.queries @ attend.query.weight.T
    keys, values = patches @ attend.key.weight.T, patches @ attend.value.weight.T
    expected = torch.zeros(2, 3, 6).double()
    slots = torch.zeros(2, 3, 4).double()
    for b in range(2):
        for p in range(3):
            scores = [float(queries[p] @ keys[b, n]) / math.sqrt(4) + float(bias[b, p, n]) for n in range(6)]
            total = sum(math.exp(score) for score in scores)
            for n in range(6):
                expected[b, p, n] = math.exp(scores[n]) / total
            slots[b, p] = F.layer_norm(sum(expected[b, p, n] * values[b, n] for n in range(6)), (4,))
    found, attention = attend(patches, bias)
    torch.testing.assert_close(attention.double(), expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found, slots, rtol=1e-4, atol=1e-5)


def test_same_gradients_as_scaled_dot_product_attention() -> None:
    torch.manual_seed(1)
    attend = PartAttention(3, 8, 4)
    patches, bias = torch.randn(2, 6, 8), torch.randn(2, 3, 6)
    towards = torch.randn(2, 3, 4)
    (attend(patches, bias)[0] * towards).sum().backward()
    ours = {name: value.grad.clone() for name, value in attend.named_parameters()}
    attend.zero_grad()
    queries = attend.query(attend.queries).expand(2, -1, -1)
    gathered = F.scaled_dot_product_attention(queries, attend.key(patches), attend.value(patches), attn_mask=bias)
    (attend.norm(gathered) * towards).sum().backward()
    for name, value in attend.named_parameters():
        torch.testing.assert_close(ours[name], value.grad, rtol=1e-4, atol=1e-6, msg=name)


def test_centroid_by_hand() -> None:
    attention = torch.tensor([[[0.25, 0.0, 0.75, 0.0]]])
    assert centroids(attention, patch_centers((2, 2), attention)).tolist() == [[[0.5 * 0.25 + 1.5 * 0.75, 0.5]]]


def test_alignment_by_hand() -> None:
    """Half a patch: quadratic; three patches: linear; what is not seen counts nowhere."""
    middle = torch.tensor([[[1.0, 1.0], [4.0, 4.0], [0.0, 0.0]], [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]])
    points = torch.tensor([[[1.5, 1.0], [4.0, 7.0], [torch.nan, 5.0]], [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]])
    seen = torch.tensor([[True, True, False], [False, False, False]])
    found = alignment_loss(middle, points, seen)
    assert found.tolist() == pytest.approx([(0.5 * 0.25 + (3 - 0.5)) / 2, 0.0])


def test_entropy_by_hand_and_finite_gradient_at_zero() -> None:
    logits = torch.tensor([[[0.0, 0.0, -1e4, -1e4], [0.0, -1e4, -1e4, -1e4]]], requires_grad=True)
    found = attention_entropy(logits.softmax(-1))
    assert found.tolist() == pytest.approx([math.log(2) / 2])
    found.sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
