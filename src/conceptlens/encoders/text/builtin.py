"""`builtin/text`: English phrases to unit vectors by a small trained transformer that ships with the package.

It was taught to place phrases where all-MiniLM-L6-v2 does (`pretraining/text` in the repository): phrases of like
meaning are close, and the built-in image tower's class token can be compared with them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, stored
from conceptlens.encoders.text.check import check_texts
from conceptlens.encoders.text.int8_rows import unpack
from conceptlens.encoders.text.tower import TextTower
from conceptlens.encoders.text.wordpiece import WordPiece
from conceptlens.encoders.weights_file import check_package_weights, load_weights, read_weights

WEIGHTS = Path(__file__).parents[1] / "weights" / "text.safetensors"
PIECES = "pieces"  # the vocabulary, kept among the weights as bytes: one file, one hash
BATCH = 128  # phrases at once: fewer costs threads that wait for each other, more costs padding


class BuiltinText:
    """English phrases to unit vectors: phrases of like meaning are close.

    Args:
        weights: The tower's .safetensors file, beside a .json with its sizes and hash; the package's own by default.
    """

    name = "builtin/text"

    def __init__(self, weights: str | Path = WEIGHTS) -> None:
        path = Path(weights)
        if not stored(path).exists():
            raise UserError(
                f"{self.name}: {path} is missing. Install conceptlens again, or write "
                "`encoder: {text: builtin/hashed-text}`, which needs no weights."
            )
        check_package_weights(path)
        sizes: dict[str, Any] = read_json(path.with_suffix(".json"))["tower"]
        state = read_weights(path)
        self.tokenizer = WordPiece(bytes(state.pop(PIECES).numpy()).decode().split("\n"))
        with torch.random.fork_rng(devices=[]):  # a start that is overwritten must not use up the caller's numbers
            self.tower = TextTower(**sizes).eval()
        load_weights(self.tower, unpack(state), source=str(path), hint="Install conceptlens again.")
        self.width = self.tower.width

    @torch.no_grad()
    def embed(self, texts: Sequence[str]) -> Tensor:
        """(n, 384), unit length, fp32, on the CPU. A text is read up to its 62nd word piece, about 45 words."""
        check_texts(self.name, texts)
        rows = [self.tokenizer.encode(text, longest=self.tower.longest) for text in texts]
        for text, row in zip(texts, rows, strict=True):
            if all(number == self.tokenizer.unknown for number in row[1:-1]):
                raise UserError(f"{self.name}: none of the words of {text!r} is known. Describe it in English.")
        vectors = torch.empty(len(rows), self.width)
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]))  # like lengths together: little padding
        for start in range(0, len(order), BATCH):
            places = order[start : start + BATCH]
            length = len(rows[places[-1]])
            numbers = torch.tensor([rows[p] + [self.tokenizer.pad] * (length - len(rows[p])) for p in places])
            vectors[places] = self.tower(numbers, numbers != self.tokenizer.pad)
        return vectors
