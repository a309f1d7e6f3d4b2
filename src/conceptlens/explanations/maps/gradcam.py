"""Grad-CAM on tokens (Selvaraju et al., Grad-CAM, 2017): which patches lift a concept's score.

With tokens A (L, D) and a concept's score s, the channel weights are α_d = mean_l ∂s/∂A_ld and the map is
ReLU(Σ_d α_d A_ld), a number for each patch. A model that reads patches is looked at where they leave the encoder. One
that reads the class token alone gives those patches no gradient; there, tokens are looked at where they enter the last
block, through whose attention they reach the class token.
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

Place = Literal[
    "patches that leave the encoder", "patches that enter its last block", "patches of the layers that it reads"
]


@dataclass(frozen=True)
class Watched:
    """A batch with the tokens that Grad-CAM looks at; the scores have a graph down to them."""

    output: ConceptOutput
    grid: tuple[int, int]
    place: Place
    tokens: Tensor  # (B, N, D)

    @property
    def prefix(self) -> int:
        """Class token and registers, which stand before the patches."""
        return int(self.tokens.shape[1]) - self.grid[0] * self.grid[1]

    def maps(self, concepts: Tensor) -> Tensor:
        """Grad-CAM of n concepts of each image, concepts (B, n) → (B, n, L); one backward pass for each of the n."""
        found = []
        scores = self.output.concept_logits.gather(1, concepts)
        for column in range(concepts.shape[1]):
            # Images do not see each other in evaluation mode, so that the sum's gradient is each image's own.
            (slope,) = torch.autograd.grad(scores[:, column].sum(), self.tokens, retain_graph=True)
            alpha = slope[:, self.prefix :].mean(1, keepdim=True)
            found.append((alpha * self.tokens.detach()[:, self.prefix :]).sum(-1).relu())
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
    if pipeline.model.reads_layers:
        return _watch_layers(pipeline, images)
    blocks = pipeline.encoder.blocks()
    with torch.enable_grad(), _entrance(blocks[-1]) as seen:
        tokens: Tokens = pipeline.encoder(images)
        output = pipeline.read(tokens)
    if not seen:
        raise UserError(
            f"Grad-CAM cannot follow {pipeline.encoder.name}: its last block is not handed its tokens as a tensor. "
            "Leave gradcam out of --maps."
        )
    if _reads_patches(pipeline, output, tokens):
        return Watched(output, tokens.grid, "patches that leave the encoder", tokens.patches)
    entering = seen[-1]
    if entering.ndim != 3 or entering.shape[1] < tokens.patches.shape[1]:
        raise UserError(
            f"Grad-CAM cannot follow {pipeline.encoder.name}: tokens that enter its last block, "
            f"{tuple(entering.shape)}, are not those of its grid {tokens.grid}. Leave gradcam out of --maps."
        )
    return Watched(output, tokens.grid, "patches that enter its last block", entering)


def _watch_layers(pipeline: Pipeline, images: Tensor) -> Watched:
    """The same for a model that reads several layers: looked at side by side, where they leave the encoder."""
    with torch.no_grad():
        tokens: Tokens = pipeline.encoder(images)
    with torch.enable_grad():
        joined = torch.cat(tokens.layers, -1).detach().requires_grad_()
        layers = joined.split([layer.shape[-1] for layer in tokens.layers], -1)
        output = pipeline.read(Tokens(tokens.patches, tokens.grid, tokens.cls, layers, tokens.aux, tokens.layer_cls))
    return Watched(output, tokens.grid, "patches of the layers that it reads", joined)


def _reads_patches(pipeline: Pipeline, output: ConceptOutput, tokens: Tokens) -> bool:
    """Whether patches reach the concepts as they leave the encoder: where attention says so, or else the graph."""
    if pipeline.model.has_attention:
        return True
    (slope,) = torch.autograd.grad(output.concept_logits.sum(), tokens.patches, retain_graph=True, allow_unused=True)
    return slope is not None
