"""The contract of every concept model: tokens in, concepts out, and the class from the concepts alone."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from torch import Tensor, nn

from conceptlens.bottleneck.regulariser import NOTHING, Context, Regulariser
from conceptlens.concepts import ConceptSet
from conceptlens.encoders.contract import Encoder, Tokens

Space = Literal["logit", "probability", "cosine"]


@dataclass
class ConceptOutput:
    """What a model says of B images."""

    logits: Tensor  # (B, C)
    concept_logits: Tensor  # (B, K): softmax within an exclusive group, sigmoid otherwise
    bottleneck: Tensor  # (B, K): exactly what `decide` reads
    slots: Tensor | None = None  # (B, S, D)
    attention: Tensor | None = None  # (B, S, L): a slot's weights over the patches, where it has any
    assignment: Tensor | None = None  # (B, L, S): how each patch is shared among the slots, where patches choose
    layer_weights: Tensor | None = None  # (B, S, layers), for methods that weigh layers
    losses: dict[str, Tensor] = field(default_factory=dict)  # label-free terms, (B,) each: one value per image
    patches: Tensor | None = None  # (B, L, D) as they came from the encoder: what the rank is measured on
    codes: Tensor | None = None  # (B, L): nearest code of each patch, where there is a codebook


class ConceptModel(nn.Module, ABC):
    """Base of all methods. The constructor takes a `Setup` and keyword options: the recipe's `method` keys."""

    space: ClassVar[Space] = "logit"  # the space of the bottleneck
    bypass: ClassVar[str | None] = None  # what reaches the class besides the concepts, in words; None: nothing does
    has_attention: bool = False
    concept_slot: Tensor  # (K,): which slot each concept reads; a buffer of methods that have slots

    def prepare(self, tokens: Iterable[Tokens], concepts: ConceptSet) -> ConceptSet:
        """Look at tokens of some training images once, before training; may choose concepts. Deterministic."""
        return concepts

    @abstractmethod
    def forward(self, tokens: Tokens) -> ConceptOutput: ...

    @abstractmethod
    def decide(self, bottleneck: Tensor) -> Tensor:
        """Bottleneck (B, K) → class logits (B, C): where interventions enter."""

    def end_epoch(self, tokens: Tokens) -> dict[str, float]:
        """After each training epoch, with tokens of a fixed sample; returns numbers for the history."""
        return {}


class Pipeline(nn.Module):
    """Image → tokens → (regulariser) → concepts → class."""

    def __init__(self, encoder: Encoder, regulariser: Regulariser, model: ConceptModel) -> None:
        super().__init__()
        self.encoder = encoder
        self.regulariser = regulariser
        self.model = model

    def forward(self, images: Tensor, second: Tensor | None = None) -> ConceptOutput:
        """Images of bytes or in [0, 1], (B, 3, H, W), and a second view of them, if the regulariser asks for one."""
        tokens = self.encoder(images)
        return self.read(tokens, Context(images, None if second is None else self.encoder(second)))

    def read(self, tokens: Tokens, context: Context = NOTHING) -> ConceptOutput:
        """From tokens on: the same path for live and for stored tokens."""
        seen = tokens.patches
        regularised = self.regulariser(tokens, context)
        output: ConceptOutput = self.model(regularised.tokens)
        output.losses = {**output.losses, **regularised.losses}
        output.patches, output.codes = seen, regularised.codes
        return output
