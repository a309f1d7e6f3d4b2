"""The moving average of the weights, against the recursion worked by hand."""

import pytest
import torch
from torch import nn

from conceptlens.training.optimization.average import WeightAverage


def module(value: float) -> nn.Linear:
    linear = nn.Linear(1, 1)
    with torch.no_grad():
        linear.weight.fill_(value)
        linear.bias.fill_(-value)
    return linear


def test_recursion_by_hand() -> None:
    """d = min(decay, (1 + n) / (10 + n)) at the n-th update: 2/11, 3/12, then the decay itself."""
    live = module(0.0)
    average = WeightAverage(live, decay=0.2)
    expected = 0.0
    for value, decay in ((1.0, 2 / 11), (2.0, 0.2), (4.0, 0.2)):
        live.weight.data.fill_(value)
        average.update(live)
        expected = decay * expected + (1 - decay) * value
        assert float(average.shadow["weight"]) == pytest.approx(expected)
    assert average.steps == 3


def test_applied_for_a_while_then_the_live_weights_are_back() -> None:
    live = module(1.0)
    average = WeightAverage(live, decay=0.5)
    live.weight.data.fill_(5.0)
    with average.applied(live):
        assert live.weight.item() == 1.0
    assert live.weight.item() == 5.0
    with pytest.raises(RuntimeError), average.applied(live):
        raise RuntimeError("in the middle of an evaluation")
    assert live.weight.item() == 5.0


def test_frozen_weights_are_not_averaged() -> None:
    live = module(1.0)
    live.bias.requires_grad_(False)
    assert set(WeightAverage(live, decay=0.5).shadow) == {"weight"}


def test_saved_and_restored() -> None:
    live = module(1.0)
    average = WeightAverage(live, decay=0.5)
    live.weight.data.fill_(3.0)
    average.update(live)
    stored = {name: value.clone() for name, value in average.tensors().items()}
    other = WeightAverage(module(0.0), decay=0.5)
    other.restore(stored)
    assert other.steps == average.steps == 1
    for each in (average, other):
        each.update(live)
    assert all(torch.equal(value, other.shadow[name]) for name, value in average.shadow.items())
