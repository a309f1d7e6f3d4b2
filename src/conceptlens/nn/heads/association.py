"""LaBo's class-concept association: a linear head whose weights are shares of a softmax (CVPR 2023, section 3.3)."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

Over = Literal["classes", "concepts"]


class Shares(nn.Module):
    """W (C, K) → s · softmax(W): over the classes, as the paper's formula, or over the concepts, as its code."""

    def __init__(self, over: Over, scale: float) -> None:
        super().__init__()
        self.over, self.scale = over, scale

    def forward(self, associations: Tensor) -> Tensor:
        return self.scale * associations.softmax(0 if self.over == "classes" else 1)


def association_head(associations: Tensor, *, over: Over, scale: float, rate: float) -> nn.Linear:
    """A linear head without bias that holds W (C, K) and reads with s · softmax(W); `rate` multiplies W's rate."""
    classes, concepts = associations.shape
    head = nn.Linear(concepts, classes, bias=False)
    parametrize.register_parametrization(head, "weight", Shares(over, scale))
    set_associations(head, associations)
    associations_of(head).rate = rate  # type: ignore[attr-defined]
    return head


def associations_of(head: nn.Linear) -> nn.Parameter:
    """W itself, (C, K)."""
    kept: nn.Parameter = head.parametrizations.weight.original  # type: ignore[union-attr, assignment]
    return kept


@torch.no_grad()
def set_associations(head: nn.Linear, associations: Tensor) -> None:
    associations_of(head).copy_(associations)
