"""Eq. 5 of the CORTEX paper: the tokens that explain an image (top n) and a concept (top k by frequency).

A token that is in every image can be among the most frequent of several concepts. `lift`, which is not in the paper,
takes what is more frequent among the important tokens of a concept than among those of the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.cortex.generators.contract import check_tokens

WAYS = ("frequency", "lift")


@dataclass(frozen=True)
class TokenSet:
    """T*_concept: tokens with the number of times that they were among the top n of an image, most frequent first."""

    concept: str
    tokens: tuple[int, ...]
    counts: tuple[int, ...]
    images: int
    n: int


def top_positions(scores: Tensor, n: int) -> Tensor:
    """Flat positions (B, n) of the n highest scores of grids (B, h, w), highest first; of equal ones the first."""
    flat = scores.flatten(1)
    if not 1 <= n <= flat.shape[1]:
        raise UserError(f"Expected 1 to {flat.shape[1]} tokens of an image, found {n}.")
    return flat.argsort(dim=1, descending=True, stable=True)[:, :n]


def image_sets(tokens: Tensor, scores: Tensor, n: int) -> Tensor:
    """T*_image: ids (B, n) of the tokens with the highest importance in each image."""
    return tokens.flatten(1).gather(1, top_positions(scores, n).to(tokens.device))


def most_frequent(ids: Tensor, codes: int, k: int) -> tuple[Tensor, Tensor]:
    """The k most frequent of ids (any shape) with their counts; of equally frequent ones the smaller id first."""
    if k < 1:
        raise UserError(f"Expected at least one token in a concept's set, found k = {k}.")
    counts = torch.bincount(ids.flatten().long(), minlength=codes)
    order = counts.argsort(descending=True, stable=True)[:k]
    order = order[counts[order] > 0]
    return order, counts[order]


def rival_sets(images: Sequence[Tensor], codes: int, k: int, way: str = "frequency") -> list[tuple[Tensor, Tensor]]:
    """Ids and counts of the tokens of several concepts, most telling first.

    Args:
        images: T*_image of each concept, (B_c, n).
        codes: K.
        k: Tokens kept of each, fewer where no more are above zero.
        way: `frequency` (the paper): how often a token is important to a concept. `lift`: its share of the concept's
            important tokens less the mean of its shares of the other concepts'.
    """
    if way not in WAYS:
        raise unknown_name("way to choose tokens", way, WAYS)
    if way == "frequency":
        return [most_frequent(ids, codes, k) for ids in images]
    if len(images) < 2:
        raise UserError("Lift compares concepts: at least two are needed.")
    counts = torch.stack([torch.bincount(ids.flatten().long(), minlength=codes) for ids in images])
    shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
    lift = shares - (shares.sum(0) - shares) / (len(images) - 1)
    found = []
    for own, more in zip(counts, lift, strict=True):
        order = more.argsort(descending=True, stable=True)[:k]
        order = order[more[order] > 0]
        found.append((order, own[order]))
    return found


def concept_set(tokens: Tensor, scores: Tensor, concept: str, *, codes: int, n: int = 20, k: int = 100) -> TokenSet:
    """T*_concept of images that show the concept.

    Args:
        tokens: (B, h, w), of those images.
        scores: (B, h, w), their importance to the concept.
        concept: Its name.
        codes: K, the size of the codebook.
        n: Tokens taken of each image.
        k: Tokens kept.
    """
    check_tokens(tokens, codes)
    if not len(tokens):
        raise UserError(f"No image shows {concept!r}: its token set cannot be counted.")
    ids, counts = most_frequent(image_sets(tokens, scores, n), codes, k)
    return TokenSet(concept, tuple(ids.tolist()), tuple(counts.tolist()), len(tokens), n)


def frequency_set(tokens: Tensor, concept: str, *, codes: int, k: int = 100) -> TokenSet:
    """The baseline without an extractor: the k most frequent tokens of all positions of images (B, h, w)."""
    check_tokens(tokens, codes)
    if not len(tokens):
        raise UserError(f"No image shows {concept!r}: its tokens cannot be counted.")
    ids, counts = most_frequent(tokens, codes, k)
    return TokenSet(concept, tuple(ids.tolist()), tuple(counts.tolist()), len(tokens), tokens[0].numel())


def members(tokens: Tensor, ids: tuple[int, ...], codes: int) -> Tensor:
    """Which positions of (B, h, w) hold one of the ids."""
    table = torch.zeros(codes, dtype=torch.bool, device=tokens.device)
    table[list(ids)] = True
    return table[tokens.long()]
