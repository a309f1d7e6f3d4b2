"""An extractor that is asked for gradients of its input only."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from conceptlens.core.errors import UserError


@contextmanager
def frozen(extractor: nn.Module, what: str) -> Iterator[None]:
    """No gradient for weights while it lasts; `what` needs evaluation mode."""
    if extractor.training:
        raise UserError(f"{what} needs an extractor in evaluation mode: call .eval() first.")
    learning = [parameter for parameter in extractor.parameters() if parameter.requires_grad]
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)
