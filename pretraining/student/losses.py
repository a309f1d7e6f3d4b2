"""What the student is asked for: one function a term, each a mean over the batch."""

import torch
from torch import Tensor
from torch.nn import functional as F


def class_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy (B, C) with a distribution; up to a constant the divergence from the teachers' probabilities."""
    return -(target * F.log_softmax(logits, dim=-1)).sum(-1).mean()


def direction_loss(prediction: Tensor, target: Tensor) -> Tensor:
    """1 − cosine over the last axis: a teacher's direction matters, its length does not."""
    return 1 - F.cosine_similarity(prediction.float(), target.float(), dim=-1).mean()


def grid_to_patches(grid: Tensor, size: tuple[int, int]) -> Tensor:
    """A teacher's map (B, C, h, w) as patch targets (B, L, C) on the student's grid."""
    if grid.shape[-2:] != size:
        grid = F.interpolate(grid.float(), size, mode="bilinear", align_corners=False)
    return grid.flatten(2).transpose(1, 2)


def relation_loss(patches: Tensor, target: Tensor) -> Tensor:
    """Let patches (B, L, D) be as alike as the teacher's (B, L, C) are: squared difference of their cosines.

    Both less their image's mean, so what counts is how an image falls into parts; D and C may differ.
    """

    def cosines(tokens: Tensor) -> Tensor:
        rest = tokens.float() - tokens.float().mean(1, keepdim=True)
        unit = F.normalize(rest, dim=-1)
        return unit @ unit.transpose(1, 2)

    return (cosines(patches) - cosines(target)).square().mean()


def diversity_loss(patches: Tensor) -> Tensor:
    """Keep the patches of an image apart: no channel may fall silent and no two may say the same.

    Variance and covariance terms of VICReg (Bardes et al., 2022), on patches (B, L, D) less their image's mean, so that
    differences between images do not count as diversity. The covariance term makes all directions equally strong: at
    a high weight it may hide what sets an object apart from its background.
    """
    rest = (patches.float() - patches.float().mean(1, keepdim=True)).flatten(0, 1)
    spread = (rest.square().mean(0) + 1e-4).sqrt()
    silent = F.relu(1 - spread).mean()
    covariance = rest.T @ rest / len(rest)
    alike = covariance.square().sum() - covariance.diagonal().square().sum()
    return silent + alike / len(covariance) / 25  # their weights in VICReg: 25 to 1


def text_loss(vectors: Tensor, texts: Tensor, target: Tensor, scale: Tensor) -> Tensor:
    """Contrast image vectors (B, T) with the vectors of all class texts (C, T); `target` (B, C) is a distribution.

    Rows of `target` without any mass do not count.
    """
    logits = scale * vectors @ texts.T
    counted = target.sum(-1) > 0
    each = -(target * F.log_softmax(logits.float(), dim=-1)).sum(-1)
    return (each * counted).sum() / counted.sum().clamp(min=1)


def axis_loss(logits: Tensor, labels: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """Mean cross-entropy over axes; logits (B, ΣV) side by side, labels (B, A) with −1 where unknown."""
    parts = torch.split(logits.float(), list(sizes), dim=-1)
    terms = []
    for axis, part in enumerate(parts):
        known = labels[:, axis] >= 0
        each = F.cross_entropy(part, labels[:, axis].clamp(min=0), reduction="none")
        terms.append((each * known).sum() / known.sum().clamp(min=1))
    return torch.stack(terms).mean()
