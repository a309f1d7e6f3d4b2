"""Eq. 5 of the CORTEX paper: the tokens that explain an image (top n) and a concept (top k by frequency)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conceptlens.codebook.contract import check_tokens
from conceptlens.errors import UserError


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
