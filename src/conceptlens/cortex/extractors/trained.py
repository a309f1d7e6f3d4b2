"""An extractor with what it was trained for: its concepts, its grid and its codebook; saved as safetensors and JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import fingerprint, new_folder, read_json, write_json
from conceptlens.cortex.extractors.extractors import make_network
from conceptlens.encoders.weights_file import load_weights, read_weights

WEIGHTS, CARD = "extractor.safetensors", "extractor.json"


def codebook_hash(codebook: Tensor) -> str:
    """A fingerprint of the codes, to tell one model's tokens from another's."""
    return fingerprint(codebook.detach().float().cpu().numpy().tobytes())


@dataclass(frozen=True)
class ExtractorCard:
    """What must be known to use an extractor."""

    network: str
    concepts: tuple[str, ...]
    width: int
    grid: tuple[int, int]
    codes: int
    codebook: str  # its fingerprint
    options: Mapping[str, int | float | str] = field(default_factory=dict)
    accuracy: Mapping[str, float] = field(default_factory=dict)  # top-1, … on samples it was not trained on


class InformationExtractor(nn.Module):
    """f of Eq. 1: embeddings (B, d, h, w) → logits (B, n) over its concepts."""

    def __init__(self, card: ExtractorCard) -> None:
        super().__init__()
        self.card = card
        self.network = make_network(card.network, card.width, card.grid, len(card.concepts), **card.options)

    @classmethod
    def make(
        cls,
        network: str,
        codebook: Tensor,
        grid: tuple[int, int],
        concepts: Sequence[str],
        **options: int | float | str,
    ) -> "InformationExtractor":
        """A new one for tokens of a codebook (K, d) on a grid."""
        codes, width = codebook.shape
        return cls(ExtractorCard(network, tuple(concepts), width, grid, codes, codebook_hash(codebook), options))

    def forward(self, embeddings: Tensor) -> Tensor:
        self.check(embeddings)
        logits: Tensor = self.network(embeddings)
        return logits

    def check(self, embeddings: Tensor) -> None:
        """Raise unless embeddings are of the width and the grid it was trained for."""
        expected = (self.card.width, *self.card.grid)
        if embeddings.ndim != 4 or tuple(embeddings.shape[1:]) != expected:
            raise UserError(
                f"This extractor was trained for embeddings (B, {', '.join(map(str, expected))}): a codebook of width "
                f"{expected[0]} on a grid of {expected[1]} × {expected[2]}. Found {tuple(embeddings.shape)}. "
                "Train one for this model and image size with `conceptlens codebook extract`."
            )

    def check_codebook(self, codebook: Tensor) -> None:
        """Raise unless the codebook is the one whose tokens it was trained on."""
        if codebook.shape[1] != self.card.width:
            raise UserError(
                f"This extractor reads codes of width {self.card.width}; the model's codebook has width "
                f"{codebook.shape[1]}. Train one for this model with `conceptlens codebook extract`."
            )
        if codebook_hash(codebook) != self.card.codebook:
            raise UserError(
                "This extractor was trained on the tokens of another codebook (their fingerprints differ). Train one "
                "for this model with `conceptlens codebook extract`."
            )

    def concept(self, name: str) -> int:
        """The place of a concept."""
        if name not in self.card.concepts:
            raise unknown_name("concept", name, self.card.concepts)
        return self.card.concepts.index(name)

    def save(self, folder: Path) -> None:
        with new_folder(folder) as aside:
            state = {name: value.detach().cpu().contiguous() for name, value in self.network.state_dict().items()}
            save_file(state, aside / WEIGHTS)
            write_json(aside / CARD, {**vars(self.card), "options": dict(self.card.options)})

    @classmethod
    def load(cls, folder: Path) -> "InformationExtractor":
        """A saved one, on the CPU, in evaluation mode."""
        if not (folder / CARD).exists():
            raise UserError(
                f"{folder}: expected an extractor ({CARD}), found none. `conceptlens codebook extract` makes one."
            )
        raw: dict[str, Any] = read_json(folder / CARD)
        raw.pop("schema", None)
        try:
            raw["grid"], raw["concepts"] = tuple(raw["grid"]), tuple(raw["concepts"])
            extractor = cls(ExtractorCard(**raw))
        except (KeyError, TypeError) as error:
            raise UserError(f"{folder / CARD}: not an extractor of this version ({error}).") from None
        hint = "Copy the folder again, or train the extractor anew."
        load_weights(extractor.network, read_weights(folder / WEIGHTS), source=str(folder / WEIGHTS), hint=hint)
        return extractor.eval()


@torch.no_grad()
def probabilities(extractor: nn.Module, embeddings: Tensor, *, batch: int = 256) -> Tensor:
    """p of Eq. 1, (B, n)."""
    parts = [extractor(part).softmax(1) for part in torch.split(embeddings, batch)]
    return torch.cat(parts)
