"""A layer's concepts as a run keeps them: vectors, μ_BN, λ of the lasso, and the samples behind each."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_checked, write_bytes
from conceptlens.gig.dictionaries.coded import Coded, coded
from conceptlens.gig.dictionaries.lasso import Dictionary, decompose


@dataclass(frozen=True)
class LayerConcepts:
    """k concepts of a layer with C channels, learned from N samples."""

    vectors: Tensor  # (k, C)
    shift: Tensor  # (C,) β of Eq. 9
    penalty: float  # λ of Eq. 2
    labels: Tensor  # (N,) the concept of each sample
    nearest: Tensor  # (k, m) samples nearest to each concept, best first
    cosines: Tensor  # (k, m)

    @cached_property
    def dictionary(self) -> Dictionary:
        return Dictionary(self.vectors)

    def code(self, features: Tensor) -> Coded:
        """Eq. 2 for every position (P, C)."""
        u = decompose(features - self.shift, self.dictionary, self.penalty).dense()
        return coded(features, u, self.vectors, self.shift)

    def members(self, concept: int) -> Tensor:
        """Samples of a concept's cluster."""
        return torch.nonzero(self.labels == concept).flatten()

    def to(self, device: torch.device | str) -> "LayerConcepts":
        return LayerConcepts(
            self.vectors.to(device),
            self.shift.to(device),
            self.penalty,
            self.labels.to(device),
            self.nearest,
            self.cosines,
        )

    def write(self, path: Path) -> None:
        tensors = {
            "vectors": self.vectors,
            "shift": self.shift,
            "penalty": torch.tensor([self.penalty], dtype=torch.float64),
            "labels": self.labels,
            "nearest": self.nearest,
            "cosines": self.cosines,
        }
        write_bytes(path, save({name: value.detach().cpu().contiguous() for name, value in tensors.items()}))

    @classmethod
    def read(cls, path: Path) -> "LayerConcepts":
        try:
            tensors = load(read_checked(path))
            return cls(
                tensors["vectors"],
                tensors["shift"],
                float(tensors["penalty"]),
                tensors["labels"],
                tensors["nearest" if "nearest" in tensors else "faces"],  # as version 0.1 called it
                tensors["cosines"],
            )
        except FileNotFoundError:
            raise UserError(f"{path}: no such file; the run is not finished.") from None
        except (SafetensorError, KeyError, ValueError) as error:
            raise UserError(f"{path}: expected a layer's concepts, but {error}. Delete it and run again.") from None
