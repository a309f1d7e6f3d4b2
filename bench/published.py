"""The published IVQ-CBM's training step, written down naively from its description: what `bench/gpu.py` compares with.

Single precision; a full SVD of each image's patches, in a Python loop, in every forward pass; vector quantization with
the distances of all pairs and a one-hot product; Magnet as a weighted sum; FFN, norm, projection; scores against the
texts of each axis. No part of the package but the vocabulary is used.
"""

from typing import Any, cast

import timm
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.concepts import ConceptSet


class Published(nn.Module):
    """Images (B, 3, H, W), normalized, and labels → the loss."""

    codebook: Tensor
    queries: Tensor
    text: Tensor

    def __init__(self, trunk: str, size: int, concepts: ConceptSet, classes: int, text_width: int = 512) -> None:
        super().__init__()
        self.trunk = cast(Any, timm.create_model(trunk, pretrained=False, num_classes=0, img_size=size))
        width, axes = self.trunk.num_features, len(concepts.groups)
        self.groups = [group.concepts for group in concepts.groups]
        self.register_buffer("codebook", torch.empty(axes, width).uniform_(-1 / axes, 1 / axes))
        self.register_buffer("queries", torch.randn(axes, width))
        self.register_buffer("text", F.normalize(torch.randn(len(concepts), text_width), dim=-1))
        self.ffn = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.norm, self.project = nn.LayerNorm(width), nn.Linear(width, text_width, bias=False)
        self.head = nn.Linear(len(concepts), classes)
        self.ranks: list[int] = []

    def patches(self, images: Tensor) -> Tensor:
        """Output of the last block before the final norm, class token dropped, (B, L, D)."""
        x = self.trunk.patch_embed(images)
        x = self.trunk.blocks(self.trunk._pos_embed(x))
        return x[:, self.trunk.num_prefix_tokens :]

    def forward(self, images: Tensor, labels: Tensor, values: Tensor) -> Tensor:
        """`labels` (B,) of classes, `values` (B, axes): the value of each axis."""
        z = self.patches(images)
        self.ranks = []
        for matrix in z.detach():
            _, sigma, _ = torch.linalg.svd(matrix, full_matrices=False)
            self.ranks.append(int((sigma.cumsum(0) / sigma.sum() <= 0.99).sum()))
        flat = z.flatten(0, 1)
        distances = flat.square().sum(1, keepdim=True) + self.codebook.square().sum(1) - 2 * flat @ self.codebook.T
        one_hot = torch.zeros_like(distances).scatter_(1, distances.argmin(1, keepdim=True), 1)
        quantized = (one_hot @ self.codebook).view_as(z)
        vq = F.mse_loss(quantized, z.detach()) + F.mse_loss(z, quantized.detach())
        attention = (-torch.cdist(z, self.queries.expand(len(z), -1, -1)).square()).softmax(-1)
        slots = attention.transpose(1, 2) @ z
        visual = F.normalize(self.project(self.norm(self.ffn(slots))), dim=-1)
        scores = [100 * visual[:, axis] @ self.text[group].T for axis, group in enumerate(self.groups)]
        concept = torch.stack([F.cross_entropy(score, values[:, axis]) for axis, score in enumerate(scores)]).mean()
        return F.cross_entropy(self.head(torch.cat(scores, 1)), labels) + concept + vq
