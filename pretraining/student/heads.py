"""The student with the heads that answer for each teacher; only the encoder is kept."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from conceptlens.encoders.builtin import BuiltinViT
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
        relation: The teacher whose patches' likeness is taught.
        scale: (C', 1, 1) factors of that teacher's components, taken back where likeness is compared.
    """

    scale: Tensor

    def __init__(
        self,
        encoder: BuiltinViT,
        pooled: Mapping[str, int],
        grids: Mapping[str, int],
        axes: tuple[int, ...],
        relation: str,
        scale: Tensor,
    ) -> None:
        super().__init__()
        self.encoder, self.axes, self.relation = encoder, axes, relation
        self.register_buffer("scale", scale.view(-1, 1, 1), persistent=False)
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
            batch: Rows of the ring: `classes`, `names`, `attributes`, `pooled.…`, `grid.…`.
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
            "relation": relation_loss(
                tokens.patches, grid_to_patches(batch[f"grid.{self.relation}"] / self.scale, tokens.grid)
            ),
            "diversity": diversity_loss(tokens.patches[:, ::7]),
            "text": text_loss(vectors, texts, batch["names"].float(), scale),
        }
        both = torch.cat([whole, tokens.patches.mean(1)], -1)
        terms["cells"] = axis_loss(self.cells(both), batch["attributes"], self.axes)
        terms["cell_text"] = axis_loss(scale * vectors @ cell_texts.T, batch["attributes"], self.axes)
        return terms


def total(terms: Mapping[str, Tensor], weights: Mapping[str, float] = WEIGHTS) -> Tensor:
    """The weighted sum of the terms."""
    return torch.stack([weights[name] * value for name, value in terms.items()]).sum()
