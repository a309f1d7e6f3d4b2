"""The contract of token regularisers: interchangeable in every method that trains its encoder."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from torch import Tensor, nn

from conceptlens.bottleneck.setup import Setup
from conceptlens.encoders.contract import Tokens
from conceptlens.errors import UserError


@dataclass
class Regularised:
    """Tokens as the aggregator shall see them, and the weighted loss terms, one value per image (B,)."""

    tokens: Tokens
    losses: dict[str, Tensor] = field(default_factory=dict)
    codes: Tensor | None = None  # (B, L)


def check_not_negative(**options: float) -> None:
    """Raise a `UserError` for the first option of a regulariser that is below 0."""
    for name, value in options.items():
        if value < 0:
            raise UserError(f"regulariser.{name}: expected 0 or more, found {value}.")


class Regulariser(nn.Module, ABC):
    """Base of all. The constructor takes a `Setup` and keyword options: those are the recipe's `regulariser` keys."""

    acts_on_tokens: bool = True  # means nothing on frozen tokens: training refuses it there

    def prepare(self, tokens: Iterable[Tokens]) -> None:
        """Look at tokens of some training images once, before training. Deterministic."""

    @abstractmethod
    def forward(self, tokens: Tokens) -> Regularised: ...

    def end_epoch(self, tokens: Tokens, total: Callable[[Tensor], Tensor]) -> dict[str, float]:
        """After each training epoch, with tokens of a fixed sample; `total` sums a tensor over all processes.

        Returns numbers for the history.
        """
        return {}


class NoRegulariser(Regulariser):
    """Tokens pass unchanged, at no cost."""

    acts_on_tokens = False

    def __init__(self, setup: Setup) -> None:
        """No regulariser.

        Args:
            setup: What the model is built for.
        """
        super().__init__()

    def forward(self, tokens: Tokens) -> Regularised:
        return Regularised(tokens)
