"""What a model is built for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet


def no_reader(texts: Sequence[str]) -> Tensor:
    """Vectors of no width, where no text encoder is at hand."""
    return torch.zeros(len(texts), 0)


@dataclass(frozen=True)
class Setup:
    """The sizes and words that a method, an aggregator or a regularizer is made to fit."""

    concepts: ConceptSet
    text: Tensor  # (K, D_text), unit length: the texts of the concepts; (K, 0) for a method that uses none
    width: int  # D of the tokens
    classes: int  # C
    class_names: tuple[str, ...] = ()
    embed: Callable[[Sequence[str]], Tensor] = no_reader  # further texts → (n, D_text); zeros if weights follow
    layer_widths: tuple[int, ...] = ()  # D of each of the encoder's further layers, where they are handed on
