"""The contract of token regularizers: interchangeable in every method that trains its encoder."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Encoder, Tokens
from conceptlens.nn.setup import Setup


@dataclass
class Regularized:
    """Tokens as the aggregator shall see them, and the weighted loss terms, one value per image (B,)."""

    tokens: Tokens
    losses: dict[str, Tensor] = field(default_factory=dict)
    codes: Tensor | None = None  # (B, L)


@dataclass(frozen=True)
class SecondView:
    """The second view of each training image that a regularizer asks for; the first stays what every method sees."""

    same_place: bool = False  # patch j of both views shows the same place: only their colors differ
    color: float = 0.0  # largest relative change of its colors, where the training's own augmentation has less


@dataclass(frozen=True)
class Context:
    """What a regularizer may see besides the tokens."""

    images: Tensor | None = None  # what the encoder read: (B, 3, H, W), or stored tokens (B, N, D)
    second: Tokens | None = None  # of the second view, while training, where one was asked for


NOTHING = Context()


def check_not_negative(**options: float) -> None:
    """Raise a `UserError` for the first option of a regularizer that is below 0."""
    for name, value in options.items():
        if value < 0:
            raise UserError(f"regularizer.{name}: expected 0 or more, found {value}.")


class Regularizer(nn.Module, ABC):
    """Base of all. The constructor takes a `Setup` and keyword options: those are the recipe's `regularizer` keys."""

    acts_on_tokens: bool = True  # means nothing on frozen tokens: training refuses it there
    second_view: SecondView | None = None  # what is asked for besides the image itself
    anchored: bool = False  # keeps a copy of the start encoder: a resumed training must begin from the same one

    def attach(self, encoder: Encoder) -> None:
        """Meet the encoder as training starts from it, on its device, once; a resumed state is loaded afterwards.

        What is registered here is a part of `state/` while training, and `detach` takes it away again.
        """

    def detach(self) -> None:
        """Training is over: leave the encoder and this module with the parameters and buffers they were built with."""

    def prepare(self, tokens: Iterable[Tokens]) -> None:
        """Look at tokens of some training images once, before training. Deterministic."""

    @abstractmethod
    def forward(self, tokens: Tokens, context: Context = NOTHING) -> Regularized:
        """The tokens that the model shall see, and the loss terms of each image."""

    def end_epoch(self, tokens: Tokens, total: Callable[[Tensor], Tensor]) -> dict[str, float]:
        """After each training epoch, with tokens of a fixed sample; `total` sums a tensor over all processes.

        Returns numbers for the history.
        """
        return {}


class NoRegularizer(Regularizer):
    """Tokens pass unchanged, at no cost."""

    acts_on_tokens = False

    def __init__(self, setup: Setup) -> None:
        """No regularizer.

        Args:
            setup: What the model is built for.
        """
        super().__init__()

    def forward(self, tokens: Tokens, context: Context = NOTHING) -> Regularized:
        return Regularized(tokens)
