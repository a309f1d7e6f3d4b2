"""The association head: shares over classes or concepts, and a weight that others may read."""

import torch
from torch import nn

from conceptlens.nn.heads.association import association_head, associations_of

W = torch.tensor([[1.0, 0, 0], [0, 1, 0]])


def test_shares_over_classes_by_hand() -> None:
    """e : 1 of the two classes for the first concept, 1 : e for the second, even for the third; times 10."""
    head = association_head(W, over="classes", scale=10.0, rate=1.0)
    much = 10 * 2.718281828 / 3.718281828
    expected = torch.tensor([[much, 10 - much, 5], [10 - much, much, 5]])
    torch.testing.assert_close(head.weight.detach(), expected)
    read = torch.tensor([[0.2, 0.1, 0.4]])
    torch.testing.assert_close(head(read), read @ expected.T)


def test_shares_over_concepts_by_hand() -> None:
    weight = association_head(W, over="concepts", scale=1.0, rate=1.0).weight.detach()
    e = 2.718281828
    torch.testing.assert_close(weight, torch.tensor([[e, 1, 1], [1, e, 1]]) / (e + 2))


def test_it_is_a_linear_layer_whose_associations_learn() -> None:
    head = association_head(W, over="classes", scale=100.0, rate=7.0)
    assert isinstance(head, nn.Linear)
    assert head.bias is None
    assert [name for name, _ in head.named_parameters()] == ["parametrizations.weight.original"]
    head(torch.ones(1, 3))[0, 0].backward()
    assert associations_of(head).grad is not None
    assert associations_of(head).rate == 7.0
