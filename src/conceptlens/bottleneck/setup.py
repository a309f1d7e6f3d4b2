"""What a model is built for."""

from dataclasses import dataclass

from torch import Tensor

from conceptlens.concepts import ConceptSet


@dataclass(frozen=True)
class Setup:
    """The sizes and words that a method, an aggregator or a regulariser is made to fit."""

    concepts: ConceptSet
    text: Tensor  # (K, D_text), unit length: the texts of the concepts
    width: int  # D of the tokens
    classes: int  # C
