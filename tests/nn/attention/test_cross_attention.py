"""Cross-attention against a naive loop over heads, slots and patches."""

import math

import pytest
import torch
from torch.nn import functional as F

from conceptlens.nn.attention.cross_attention import CrossAttention, most_heads


@pytest.mark.parametrize(("width", "heads"), [(768, 12), (1024, 8), (256, 8), (96, 12), (7, 7), (13, 1), (1, 1)])
def test_as_many_heads_as_divide(width: int, heads: int) -> None:
    assert most_heads(width) == heads


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_equals_a_naive_loop(norm: str) -> None:
    torch.manual_seed(0)
    attend = CrossAttention(3, 8, heads=2, token_norm=norm).double()
    torch.nn.init.normal_(attend.attend.in_proj_bias)
    torch.nn.init.normal_(attend.attend.out_proj.bias)
    patches = 3 * torch.randn(2, 5, 8, dtype=torch.float64)
    slots, attention = attend(patches)
    assert slots.shape == (2, 3, 8)
    assert attention.shape == (2, 3, 5)
    wq, wk, wv = attend.attend.in_proj_weight.split(8)
    bq, bk, bv = attend.attend.in_proj_bias.split(8)
    for b in range(2):
        z = F.layer_norm(patches[b], (8,)) if norm == "layer" else patches[b]
        for s in range(3):
            gathered, shown = [], torch.zeros(5, dtype=torch.float64)
            for head in (slice(0, 4), slice(4, 8)):
                query = (wq @ attend.queries[s] + bq)[head]
                powers = torch.stack([torch.exp(query @ (wk @ z[j] + bk)[head] / math.sqrt(4)) for j in range(5)])
                weights = powers / powers.sum()
                shown += weights / 2
                gathered.append(sum(weights[j] * (wv @ z[j] + bv)[head] for j in range(5)))
            expected = attend.attend.out_proj.weight @ torch.cat(gathered) + attend.attend.out_proj.bias
            torch.testing.assert_close(slots[b, s], expected)
            torch.testing.assert_close(attention[b, s], shown)


def test_a_slot_spreads_over_the_patches_and_gradients_reach_everything() -> None:
    attend = CrossAttention(4, 8)
    patches = torch.randn(2, 6, 8, requires_grad=True)
    slots, attention = attend(patches)
    torch.testing.assert_close(attention.sum(-1), torch.ones(2, 4))
    slots.square().sum().backward()
    assert float(patches.grad.abs().min(-1).values.min()) > 0
    assert all(parameter.grad is not None for parameter in attend.parameters())


def test_an_empty_batch() -> None:
    slots, attention = CrossAttention(4, 8)(torch.zeros(0, 6, 8))
    assert slots.shape == (0, 4, 8)
    assert attention.shape == (0, 4, 6)


def test_queries_may_rest_or_learn_faster() -> None:
    attend = CrossAttention(4, 8, learn_queries=False, query_rate=3.0)
    assert not attend.queries.requires_grad
    assert attend.queries.rate == 3.0


@pytest.mark.parametrize("slots", [3, 7])
def test_few_queries_are_answered_without_keys_and_values(slots: int) -> None:
    """Both ways are torch's own attention; which is taken hangs on what is less work."""
    torch.manual_seed(0)
    part = CrossAttention(slots, 24, heads=4)
    torch.nn.init.normal_(part.attend.in_proj_bias)  # zero at the start, where a bias that is lost would not show
    patches = torch.randn(2, 9, 24, requires_grad=True)
    expected = part.attend(part.queries.expand(2, -1, -1), patches, patches)
    found = part(patches)
    wanted = [patches, part.queries, *part.attend.parameters()]
    pulls = [torch.randn_like(each) for each in expected]
    slopes = [
        torch.autograd.grad([*outputs], wanted, pulls, retain_graph=True, allow_unused=True)
        for outputs in (expected, found)
    ]
    for mine, theirs in zip(found + slopes[1], expected + slopes[0], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
