"""Sparse fusion over layers against numbers worked out by hand, and what its two masks can learn."""

import math

import pytest
import torch

from conceptlens.nn.attention.layer_fusion import SOFTNESS, LayerFusion, Mask


def fusion(mask: Mask = "hard", sharpness: float = 2.0, threshold: float = 0.5) -> LayerFusion:
    """Of two concepts; the layers' weights are the softmax of the scores themselves."""
    made = LayerFusion(2, mask=mask, sharpness=sharpness, threshold=threshold)
    with torch.no_grad():
        made.attend.weight.copy_(torch.eye(2))
        made.attend.bias.zero_()
    return made


def logs(*shares: float) -> list[float]:
    return [math.log(share) for share in shares]


def test_by_hand() -> None:
    """Shares .5, .4, .1: the threshold is .3, two layers stay. Shares .2, .2, .6: it is .4, one stays."""
    scores = torch.tensor([logs(0.5, 0.4, 0.1), logs(0.2, 0.2, 0.6)]).T.unsqueeze(0)  # (1, 3, 2)
    fused = fusion()(scores)
    first, second = 0.5 * math.exp(2 * 0.2), 0.4 * math.exp(2 * 0.1)
    expected = [first / (first + second), second / (first + second), 0.0]
    assert fused.weights[0, :, 0].tolist() == pytest.approx(expected, abs=1e-6)
    assert fused.weights[0, :, 1].tolist() == pytest.approx([0.0, 0.0, 1.0], abs=1e-6)
    assert fused.scores[0].tolist() == pytest.approx(
        [expected[0] * math.log(0.5) + expected[1] * math.log(0.4), math.log(0.6)], abs=1e-5
    )
    assert fused.active.tolist() == pytest.approx([(2 + 1) / 6])


def test_a_low_threshold_keeps_more_and_equal_layers_all_stay() -> None:
    scores = torch.tensor([logs(0.5, 0.4, 0.1)] * 2).T.unsqueeze(0)
    assert fusion(threshold=1e-6)(scores).active.tolist() == pytest.approx([2 / 3])  # the smallest is just below
    assert fusion(threshold=0.99)(scores).active.tolist() == pytest.approx([1 / 3])
    assert fusion()(torch.ones(1, 4, 2)).weights[0, :, 0].tolist() == pytest.approx([0.25] * 4)


def test_the_published_code_s_factor_tau_cancels() -> None:
    """τ exp(w − θ) in its place: divided by the sum, τ says nothing; a sharpness of 1 is the same."""
    scores = torch.randn(3, 5, 2, generator=torch.Generator().manual_seed(0))
    weights = scores.softmax(1)
    low, high = weights.amin(1, keepdim=True), weights.amax(1, keepdim=True)
    theta = 0.5 * (high - low) + low
    for tau in (0.2, 7.0):
        alpha = tau * (weights - theta).exp() * weights * (weights >= theta)
        torch.testing.assert_close(fusion(sharpness=1.0)(scores).weights, alpha / (alpha.sum(1, keepdim=True) + 1e-8))


def test_a_hard_mask_leaves_threshold_and_sparsity_without_a_gradient() -> None:
    hard = fusion()
    assert {name for name, value in hard.named_parameters() if not value.requires_grad} == {"sharpness", "kappa"}
    scores = torch.randn(2, 4, 2, requires_grad=True)
    assert hard(scores).active.grad_fn is None


def test_straight_through_has_the_hard_values_and_the_soft_gradient() -> None:
    scores = torch.randn(2, 4, 2, generator=torch.Generator().manual_seed(3))
    through, hard = fusion("straight-through"), fusion("hard")
    torch.testing.assert_close(through(scores).scores, hard(scores).scores)
    torch.testing.assert_close(through(scores).active, hard(scores).active)
    through(scores).active.sum().backward()
    kappa = torch.zeros((), requires_grad=True)
    weights = scores.softmax(1)
    low, high = weights.amin(1, keepdim=True), weights.amax(1, keepdim=True)
    soft = ((weights - low - kappa.sigmoid() * (high - low)) / SOFTNESS).sigmoid()
    soft.mean((1, 2)).sum().backward()
    torch.testing.assert_close(through.kappa.grad, kappa.grad)
    assert float(kappa.grad) < 0  # a higher threshold, fewer layers


def test_no_image() -> None:
    fused = fusion()(torch.zeros(0, 3, 2))
    assert fused.scores.shape == (0, 2)
    assert fused.active.shape == (0,)
