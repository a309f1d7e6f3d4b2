"""Grad-CAM on tokens (Selvaraju et al., Grad-CAM, 2017): which patches lift a concept's score.

With tokens A (L, D) and a concept's score s, the channel weights are α_d = mean_l ∂s/∂A_ld and the map is
ReLU(Σ_d α_d A_ld), a number for each patch. A model that reads patches is looked at where they leave the encoder, with
the layers it reads side by side: d runs over the channels of all. One that reads the class token alone gives those
patches no gradient; there, tokens are looked at where they enter the last block, through whose attention they reach the
class token.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import ConceptOutput, Pipeline

Place = Literal["patches that leave the encoder", "patches that enter its last block"]


@dataclass(frozen=True)
class Watched:
    """A batch with the tokens that Grad-CAM looks at; the scores have a graph down to them."""

    output: ConceptOutput
    grid: tuple[int, int]
    place: Place
    tokens: tuple[Tensor, ...]  # (B, N, D) each

    def maps(self, concepts: Tensor) -> Tensor:
        """Grad-CAM of n concepts of each image, concepts (B, n) → (B, n, L); one backward pass for each of the n."""
        found = []
        patches = self.grid[0] * self.grid[1]  # class token and registers stand before them
        scores = self.output.concept_logits.gather(1, concepts)
        for column in range(concepts.shape[1]):
            # Images do not see each other in evaluation mode, so that the sum's gradient is each image's own.
            slopes = torch.autograd.grad(scores[:, column].sum(), self.tokens, retain_graph=True)
            evidence = [
                (slope[:, -patches:].mean(1, keepdim=True) * tokens.detach()[:, -patches:]).sum(-1)
                for slope, tokens in zip(slopes, self.tokens, strict=True)
            ]
            found.append(torch.stack(evidence).sum(0).relu())
        return torch.stack(found, 1)


@contextmanager
def _entrance(block: nn.Module) -> Iterator[list[Tensor]]:
    """What enters a block, cut off from what made it: the graph begins here. Other threads pass as ever."""
    seen: list[Tensor] = []
    owner = threading.get_ident()

    def cut(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if threading.get_ident() != owner or not given or not isinstance(given[0], Tensor):
            return None
        seen.append(given[0].detach().requires_grad_())
        return (seen[-1], *given[1:])

    handle = block.register_forward_pre_hook(cut)
    try:
        yield seen
    finally:
        handle.remove()


def watch(pipeline: Pipeline, images: Tensor) -> Watched:
    """Run a batch (B, 3, H, W) so that its concepts can be traced back to tokens.

    The pipeline must be in evaluation mode and its parameters at rest (`requires_grad_(False)`): gradients are wanted
    of tokens only.
    """
    blocks = pipeline.encoder.blocks()
    with torch.enable_grad(), _entrance(blocks[-1]) as seen:
        tokens: Tokens = pipeline.encoder(images)
        # Layers before the last block have no graph of their own: they begin one.
        tokens.layers = tuple(
            layer if layer.requires_grad else layer.detach().requires_grad_() for layer in tokens.layers
        )
        output = pipeline.read(tokens)
    if not seen:
        raise UserError(
            f"Grad-CAM cannot follow {pipeline.encoder.name}: its last block is not handed its tokens as a tensor. "
            "Leave gradcam out of --maps."
        )
    if read := _read_patches(pipeline, output, tokens):
        return Watched(output, tokens.grid, "patches that leave the encoder", read)
    entering = seen[-1]
    if entering.ndim != 3 or entering.shape[1] < tokens.patches.shape[1]:
        raise UserError(
            f"Grad-CAM cannot follow {pipeline.encoder.name}: tokens that enter its last block, "
            f"{tuple(entering.shape)}, are not those of its grid {tokens.grid}. Leave gradcam out of --maps."
        )
    return Watched(output, tokens.grid, "patches that enter its last block", (entering,))


def _read_patches(pipeline: Pipeline, output: ConceptOutput, tokens: Tokens) -> tuple[Tensor, ...]:
    """Patches and layers that reach the concepts as they leave the encoder: where attention says so, or the graph."""
    if pipeline.model.has_attention and not tokens.layers:
        return (tokens.patches,)
    handed = (tokens.patches, *tokens.layers)
    slopes = torch.autograd.grad(output.concept_logits.sum(), handed, retain_graph=True, allow_unused=True)
    return tuple(layer for layer, slope in zip(handed, slopes, strict=True) if slope is not None)
