"""The three dictionaries of a layer, each with its own way to code and with a lasso of a given sparsity."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from conceptlens.core.files import write_bytes
from conceptlens.gig.dictionaries.autoencoder import fit_autoencoder
from conceptlens.gig.dictionaries.clusters import cluster
from conceptlens.gig.dictionaries.coded import Coded, coded
from conceptlens.gig.dictionaries.dictionary_learning import fit_dictionary
from conceptlens.gig.dictionaries.lasso import Dictionary, decompose, lambda_for

MAKERS = ("clusters", "dictionary learning", "sparse autoencoder")


@dataclass
class Coder:
    """Concept vectors and how features become coefficients.

    `penalty` is that of the dictionary's own lasso (None for the autoencoder, which has an encoder), `matched` that of
    the lasso on vectors of unit length at which a vector uses `used` concepts on average.
    """

    maker: str
    vectors: Tensor  # (k, C)
    shift: Tensor  # (C,) μ_BN, and the offset of the autoencoder's decoder
    center: Tensor  # (C,) μ_BN
    penalty: float | None
    encoder: Tensor | None = None  # (k, C)
    threshold: Tensor | None = None  # (k,)
    matched: float = 0.0
    used: float = 0.0

    @property
    def unit(self) -> Tensor:
        return torch.nn.functional.normalize(self.vectors, dim=1)

    @cached_property
    def _words(self) -> Dictionary:
        return Dictionary(self.vectors)

    def encode(self, features: Tensor) -> Tensor:
        """(n, C) → (n, k)."""
        if self.encoder is not None and self.threshold is not None:
            return torch.relu((features - self.shift) @ self.encoder.T + self.threshold)
        assert self.penalty is not None
        return decompose(features - self.shift, self._words, self.penalty).dense()

    def made(self, u: Tensor) -> Tensor:
        return u @ self.vectors + self.shift

    def code(self, features: Tensor) -> Coded:
        return coded(features, self.encode(features), self.vectors, self.shift)

    def by(self, coding: str) -> "Coder":
        """By its `own` means, or `matched`: the same lasso for all, at the same sparsity."""
        if coding == "own":
            return self
        return replace(self, vectors=self.unit, shift=self.center, penalty=self.matched, encoder=None, threshold=None)

    def write(self, path: Path) -> None:
        names = ("vectors", "shift", "center", "encoder", "threshold")
        tensors: dict[str, Tensor | None] = {name: getattr(self, name) for name in names}
        numbers = torch.tensor([self.penalty or 0.0, self.matched, self.used], dtype=torch.float64)
        kept = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items() if value is not None}
        write_bytes(path, save({**kept, "numbers": numbers}, {"maker": self.maker}))

    @classmethod
    def read(cls, path: Path, device: str) -> "Coder":
        found = {name: value.to(device) for name, value in load_file(path).items()}
        penalty, matched, used = found.pop("numbers").tolist()
        maker = next(maker for maker in MAKERS if path.stem.endswith(maker.replace(" ", "-")))
        return cls(maker=maker, penalty=penalty or None, matched=matched, used=used, **found)


def fitted(maker: str, features: Tensor, shift: Tensor, k: int, *, epochs: int, batch: int) -> Coder:
    """Learn k concepts of vectors (N, C)."""
    centered = features - shift
    if maker == MAKERS[0]:
        found = cluster(features, k, shift)
        return Coder(maker, found.concepts, shift, shift, lambda_for(centered, found.concepts))
    if maker == MAKERS[1]:
        learned = fit_dictionary(centered, k, batch=min(batch, max(64, len(features) // 8)))
        return Coder(maker, learned.concepts, shift, shift, learned.lam)
    coder = fit_autoencoder(centered, k, epochs=epochs)
    # `encode` subtracts what `made` adds, the decoder's offset too, which the encoder was not trained with.
    threshold = coder.threshold + coder.encoder @ coder.offset
    return Coder(maker, coder.concepts, shift + coder.offset, shift, None, coder.encoder, threshold)


def matched_penalty(centered: Tensor, unit: Tensor, used: float, *, turns: int = 12) -> float:
    """λ at which vectors (n, C) use so many concepts on average, by halving."""
    words = Dictionary(unit)
    high = lambda_for(centered, unit, 1.0)
    low = high * 1e-3
    for _ in range(turns):
        middle = (low * high) ** 0.5
        found = float(decompose(centered, words, middle).number.double().mean())
        low, high = (middle, high) if found > used else (low, middle)
    return (low * high) ** 0.5
