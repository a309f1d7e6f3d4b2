"""A concept's score depends on its own slot and on nothing else, bit by bit (PF-CBM, Eq. 5 and 6)."""

import torch

from conceptlens.nn.grounding.routing import RoutedScores
from conceptlens.nn.heads.concept_temperature import ConceptTemperature


def test_another_slot_changes_no_bit() -> None:
    torch.manual_seed(0)
    slot = torch.randint(0, 5, (40,))
    score = RoutedScores(slot, 16)
    slots = torch.randn(7, 5, 16)
    before = score(slots)
    for changed in range(5):
        other = slots.clone()
        other[:, changed] = torch.randn(7, 16) * 1e6
        after = score(other)
        assert torch.equal(after[:, slot != changed], before[:, slot != changed])
        assert bool((after[:, slot == changed] != before[:, slot == changed]).all())


def test_no_gradient_reaches_another_slot() -> None:
    slot = torch.tensor([0, 2, 2, 1])
    slots = torch.randn(3, 3, 8, requires_grad=True)
    RoutedScores(slot, 8)(slots)[:, 1].sum().backward()
    assert slots.grad is not None
    assert slots.grad.abs().sum((0, 2)).tolist()[:2] == [0.0, 0.0]
    assert float(slots.grad[:, 2].abs().sum()) > 0


def test_equation_6_naively() -> None:
    torch.manual_seed(1)
    slot = torch.tensor([1, 0, 1])
    score, slots = RoutedScores(slot, 4).requires_grad_(False), torch.randn(2, 2, 4)
    found = score(slots)
    for b in range(2):
        for c in range(3):
            naive = sum(float(slots[b, slot[c], d] * score.weight[c, d]) for d in range(4)) + float(score.bias[c])
            assert abs(float(found[b, c]) - naive) < 1e-5


def test_temperature_is_clamped() -> None:
    temperature = ConceptTemperature(4)
    with torch.no_grad():
        temperature.log.copy_(torch.tensor([0.0, 5.0, -5.0, 0.6931472]))
    torch.testing.assert_close(temperature.value, torch.tensor([1.0, 5.0, 0.5, 2.0]))
    torch.testing.assert_close(temperature(torch.full((1, 4), 10.0)), torch.tensor([[10.0, 2.0, 20.0, 5.0]]))
