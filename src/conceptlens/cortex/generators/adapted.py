"""Any object that does what `VQModel` says, whatever its class: a third party's model needs none of our classes."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.contract import VQModel

NEEDED = ("codebook", "encode", "image_size", "grid")


class AdaptedVQ(VQModel):
    """An object behind the contract.

    Args:
        inner: Has `codebook` (K, d), `image_size`, `grid` and `encode`; to paint, `decode_embeddings`; to generate,
            `generate` and `classes`, `attributes` or both.
        name: What it is called where it has no `name`.
    """

    def __init__(self, inner: Any, name: str) -> None:
        super().__init__()
        if absent := [part for part in NEEDED if not hasattr(inner, part)]:
            raise UserError(
                f"{name}: expected what `conceptlens.cortex.generators.contract.VQModel` describes; it has no "
                f"{', '.join(absent)}."
            )
        if not isinstance(inner.codebook, Tensor) or inner.codebook.ndim != 2:
            raise UserError(f"{name}: expected `codebook` as a tensor (K, d), found {type(inner.codebook).__name__}.")
        self.inner = inner  # as a submodule, where it is one: then it moves and freezes with this
        self.name = str(getattr(inner, "name", name))
        self.image_size, self.grid = int(inner.image_size), (int(inner.grid[0]), int(inner.grid[1]))
        self.decodes = bool(getattr(inner, "decodes", hasattr(inner, "decode_embeddings")))
        self.generates = bool(getattr(inner, "generates", hasattr(inner, "generate")))
        self.classes = tuple(map(str, getattr(inner, "classes", ())))
        attributes: Mapping[str, Any] = getattr(inner, "attributes", {})
        self.attributes = {str(group): tuple(map(str, values)) for group, values in attributes.items()}
        self.draws_with = tuple(getattr(inner, "draws_with", ()))
        self.sampling = getattr(inner, "sampling", VQModel.sampling)

    @property
    def codebook(self) -> Tensor:
        codes: Tensor = self.inner.codebook
        return codes

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        tokens: Tensor = self.inner.encode(images)
        return tokens

    def decode_embeddings(self, embeddings: Tensor) -> Tensor:
        if not self.decodes:
            return super().decode_embeddings(embeddings)
        images: Tensor = self.inner.decode_embeddings(embeddings)
        return images

    def generate(self, condition: Condition | None, n: int, *, seed: int = 0) -> Tensor:
        if not self.generates:
            return super().generate(condition, n, seed=seed)
        if self.draws_with:
            self.inner.sampling = self.sampling
        if condition == Condition():
            condition = None  # one word for neutral, so that an adapter need not know two
        tokens: Tensor = self.inner.generate(condition, n, seed=seed)
        return tokens

    def places(self, marked: Tensor) -> Tensor:
        cells: Tensor = self.inner.places(marked) if hasattr(self.inner, "places") else marked
        return cells


def as_vq_model(model: Any, name: str) -> VQModel:
    """The object itself where it is a `VQModel`, else behind one; in evaluation mode."""
    return model.eval() if isinstance(model, VQModel) else AdaptedVQ(model, name).eval()
