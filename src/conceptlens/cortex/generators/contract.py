"""VQ models behind one contract (CORTEX paper, section 2.1 and Appendix A.1).

A model has a codebook C (K, d). An image is a grid of tokens (h, w), each the index of a code; looked up in the
codebook they are the token-based embeddings E (d, h, w), which a decoder turns into an image again. What makes token
grids from a condition, or from none, is the model's generator, if it has one.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.condition import Condition
from conceptlens.cortex.generators.settings import Sampling


class VQModel(nn.Module, ABC):
    """Base of all adapters. Images are (B, 3, H, W) of values in [0, 1]."""

    name: str
    image_size: int
    grid: tuple[int, int]  # (h, w) of tokens of an image of that size
    decodes: bool = True
    generates: bool = False
    classes: tuple[str, ...] = ()  # what `generate` can be asked for
    attributes: Mapping[str, tuple[str, ...]] = {}  # groups, each with its values
    sampling: Sampling = Sampling()  # how `generate` draws
    draws_with: tuple[str, ...] = ()  # fields of `Sampling` that it obeys

    @property
    @abstractmethod
    def codebook(self) -> Tensor:
        """C, (K, d)."""

    @abstractmethod
    def encode(self, images: Tensor) -> Tensor:
        """Images (B, 3, H, W) → tokens (B, h, w)."""

    def decode_embeddings(self, embeddings: Tensor) -> Tensor:
        """E (B, d, h, w) → images (B, 3, H, W)."""
        raise UserError(f"{self.name} has no decoder: its tokens cannot be turned into images.")

    def generate(self, condition: Condition | None, n: int, *, seed: int = 0) -> Tensor:
        """Token grids (n, h, w) of a condition, or of none."""
        raise UserError(
            f"{self.name} does not generate: it has an encoder and a codebook only. Name images for it with --data."
        )

    def set_sampling(self, sampling: Sampling) -> None:
        """Draw otherwise from now on; what is not given stays."""
        for option in sampling.given():
            if option not in self.draws_with:
                known = ", ".join(f"--{name.replace('_', '-')}" for name in self.draws_with) or "no such option"
                raise UserError(f"--{option.replace('_', '-')}: {self.name} does not draw by it. It takes {known}.")
        self.sampling = sampling.over(self.sampling)

    def places(self, marked: Tensor) -> Tensor:
        """Marked tokens (B, h, w) as the cells of the image that they cover, (B, H', W'); the grid itself, mostly."""
        return marked

    def decode(self, tokens: Tensor) -> Tensor:
        """Tokens (B, h, w) → images (B, 3, H, W)."""
        return self.decode_embeddings(self.embed(tokens))

    def embed(self, tokens: Tensor) -> Tensor:
        """Tokens (B, h, w) → E (B, d, h, w)."""
        return lookup(self.codebook, tokens)

    def nearest_codes(self, embeddings: Tensor) -> Tensor:
        """The nearest code of each vector of E (B, d, h, w): tokens (B, h, w)."""
        return nearest_tokens(embeddings, self.codebook)


def check_tokens(tokens: Tensor, size: int) -> None:
    """Raise unless tokens (B, h, w) are ids of a codebook of `size` codes."""
    if tokens.ndim != 3 or tokens.is_floating_point():
        raise UserError(f"Expected token ids (B, h, w), found {tokens.dtype} of shape {tuple(tokens.shape)}.")
    if tokens.numel() and (int(tokens.min()) < 0 or int(tokens.max()) >= size):
        raise UserError(
            f"Token ids of a codebook of {size} codes lie in 0 to {size - 1}; found {int(tokens.min())} to "
            f"{int(tokens.max())}. These tokens belong to another model."
        )


def lookup(codebook: Tensor, tokens: Tensor) -> Tensor:
    """Token-based embeddings E (B, d, h, w) of tokens (B, h, w)."""
    check_tokens(tokens, len(codebook))
    return codebook[tokens.to(codebook.device).long()].movedim(-1, 1).contiguous()


def nearest_tokens(embeddings: Tensor, codebook: Tensor, *, batch: int = 65_536) -> Tensor:
    """A.1: t* = argmin ‖z − t_i‖² for each vector of (B, d, h, w): (B, h, w). ‖z‖² cancels."""
    if embeddings.ndim != 4 or embeddings.shape[1] != codebook.shape[1]:
        raise UserError(
            f"Expected embeddings (B, {codebook.shape[1]}, h, w) for a codebook of width {codebook.shape[1]}, "
            f"found {tuple(embeddings.shape)}."
        )
    vectors = embeddings.movedim(1, -1).reshape(-1, codebook.shape[1])
    squares = codebook.square().sum(1)
    found = [(squares - 2 * (part @ codebook.T)).argmin(1) for part in torch.split(vectors, batch)]
    flat = torch.cat(found) if found else vectors.new_zeros(0, dtype=torch.int64)
    return flat.view(len(embeddings), *embeddings.shape[2:])
