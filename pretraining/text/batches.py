"""Phrases as rows of piece numbers, embedded with little padding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from conceptlens.encoders.text.wordpiece import WordPiece


@dataclass(frozen=True)
class Rows:
    """Phrases in numbers. Lengths stay on the CPU, where batches are put together: a GPU need not wait for them."""

    numbers: Tensor  # (n, longest) int16, padded
    lengths: Tensor  # (n,) on the CPU
    pad: int

    def to(self, device: torch.device) -> "Rows":
        return Rows(self.numbers.to(device), self.lengths, self.pad)

    def __len__(self) -> int:
        return len(self.lengths)


def encode_rows(tokenizer: WordPiece, phrases: Sequence[str], *, longest: int) -> Rows:
    """Every phrase in pieces, cut to `longest`."""
    numbers = np.full((len(phrases), longest), tokenizer.pad, np.int16)
    lengths = np.empty(len(phrases), np.int64)
    for place, phrase in enumerate(phrases):
        row = tokenizer.encode(phrase, longest=longest)
        numbers[place, : len(row)] = row
        lengths[place] = len(row)
    return Rows(torch.from_numpy(numbers), torch.from_numpy(lengths), tokenizer.pad)


def embed_rows(network: Callable[[Tensor, Tensor], Tensor], rows: Rows, places: Tensor, *, chunk: int) -> Tensor:
    """Vectors (B, D) of the rows at `places` (B,), a tensor on the CPU, in their order.

    Phrases are embedded `chunk` at a time by length: a batch that is random as a whole has hardly any padding then.
    """
    device = rows.numbers.device
    lengths, order = rows.lengths[places].sort(stable=True)
    vectors = []
    for part, ends in zip(torch.split(places[order], chunk), torch.split(lengths, chunk), strict=True):
        numbers = rows.numbers[part.to(device), : int(ends[-1])].long()
        vectors.append(network(numbers, numbers != rows.pad))
    return torch.cat(vectors)[order.argsort().to(device)]
