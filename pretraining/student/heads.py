"""The student with the heads that answer for each teacher; only the encoder is kept."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.encoders.builtin.vit import BuiltinViT
from pretraining.student.losses import (
    axis_loss,
    class_loss,
    direction_loss,
    diversity_loss,
    grid_to_patches,
    relation_loss,
    text_loss,
)

WEIGHTS = {
    "class": 1.0,
    "feature": 1.0,
    "patch": 1.0,
    "relation": 3.0,
    "diversity": 0.05,
    "text": 0.5,
    "cells": 0.5,
    "cell_text": 0.25,
}


class Student(nn.Module):
    """An encoder and its training heads.

    Args:
        encoder: With its final norm on, so that patches and class token are on one scale.
        pooled: Teacher → width of its image vector.
        grids: Teacher → components of its map.
        axes: Number of values of the classes and attributes of blood cells, one axis each.
        alike: The teachers whose patches' likeness is taught → (C',) factors of the components of their maps, taken
            back where likeness is compared.
    """

    def __init__(
        self,
        encoder: BuiltinViT,
        pooled: Mapping[str, int],
        grids: Mapping[str, int],
        axes: tuple[int, ...],
        alike: Mapping[str, Tensor],
    ) -> None:
        super().__init__()
        self.encoder, self.axes, self.alike = encoder, axes, list(alike)
        for name, scale in alike.items():
            self.register_buffer(f"scale_{name}", scale.view(-1, 1, 1), persistent=False)
        self.classes = nn.Linear(encoder.width, 1000)
        self.pooled = nn.ModuleDict({name: nn.Linear(encoder.width, width) for name, width in pooled.items()})
        self.grids = nn.ModuleDict({name: nn.Linear(encoder.width, width) for name, width in grids.items()})
        self.cells = nn.Linear(2 * encoder.width, sum(axes))
        self.log_scale = nn.Parameter(torch.tensor(3.0))

    def forward(
        self, images: Tensor, batch: Mapping[str, Tensor], texts: Tensor, cell_texts: Tensor
    ) -> dict[str, Tensor]:
        """Every term of the loss, unweighted.

        Args:
            images: (B, 3, H, W) in [0, 1].
            batch: Rows of the ring: `classes`, `place`, `names`, `attributes`, `pooled.…`, `grid.…`.
            texts: (1000, T), unit vectors of the class names, in this step's wording.
            cell_texts: (ΣV, T), of the values of the cells' axes.
        """
        tokens = self.encoder(images)
        whole = tokens.cls
        scale = self.log_scale.clamp(max=4.6).exp()
        vectors = self.encoder.embed(tokens)
        terms = {
            "class": class_loss(self.classes(whole).float(), batch["classes"].float()),
            "feature": torch.stack(
                [direction_loss(head(whole), batch[f"pooled.{name}"]) for name, head in self.pooled.items()]
            ).mean(),
            "patch": torch.stack(
                [
                    direction_loss(head(tokens.patches), grid_to_patches(batch[f"grid.{name}"], tokens.grid))
                    for name, head in self.grids.items()
                ]
            ).mean(),
            "relation": relation_loss(tokens.patches, self.parts(batch, tokens.grid)),
            "diversity": diversity_loss(tokens.patches[:, ::7]),
            "text": text_loss(vectors, texts, batch["names"].float(), scale),
        }
        both = torch.cat([whole, tokens.patches.mean(1)], -1)
        terms["cells"] = axis_loss(self.cells(both), batch["attributes"], self.axes)
        terms["cell_text"] = axis_loss(scale * vectors @ cell_texts.T, batch["attributes"], self.axes)
        return terms

    def parts(self, batch: Mapping[str, Tensor], size: tuple[int, int]) -> Tensor:
        """What teachers say an image falls into (B, L, C): the directions of their patches, and where its class is.

        One place beside the directions of several teachers: on birds this finds the object better than any one does.
        """
        rows = []
        for name in self.alike:
            grid = grid_to_patches(batch[f"grid.{name}"] / self.get_buffer(f"scale_{name}"), size).float()
            rows.append(F.normalize(grid - grid.mean(1, keepdim=True), dim=-1))
        return torch.cat([*rows, grid_to_patches(batch["place"], size)], -1)


def total(terms: Mapping[str, Tensor], weights: Mapping[str, float] = WEIGHTS) -> Tensor:
    """The weighted sum of the terms."""
    return torch.stack([weights[name] * value for name, value in terms.items()]).sum()
