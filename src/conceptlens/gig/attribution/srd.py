"""Sharing Ratio Decomposition: how much each position of a layer, and each pixel, takes part in an output.

GIG paper, Eq. 10, after Han et al., Respect the model, 2024. A vector v_j of layer k is a sum of what the positions i
of the layer below send to it, v̂_{i→j} = W_{i→j} f(v_i) + b / |RF_j|; position i shares in it by
μ_{i→j} = ⟨v̂_{i→j}, v_j⟩ / ‖v_j‖², which sum to one over i, and relevance goes down by R_i = Σ_j μ_{i→j} R_j.

Written out, R_i = ⟨f(v_i), Σ_j W_{i→j}ᵀ v_j R_j / ‖v_j‖²⟩ + the shares of the bias. The sum is what backpropagation
computes if v_j R_j / ‖v_j‖² comes down in the place of a gradient. So one pass of SRD is one backward pass in which

- an activation function, given g, hands on v R / ‖v‖² with R = ⟨g, f(v)⟩;
- a bias hands its part ⟨g, b⟩ in equal shares to the positions that the map reads. A batch norm's shift counts as the
  bias of the convolution before it, and a layer norm's, or a constant beside a token, stays at its position.

All the rest is linear and does as it always does: residual sums share by ⟨branch, sum⟩ / ‖sum‖², a maximum belongs to
the winner. What transformers (and gates) add is made linear by holding it fixed: attention weights, the deviation in a
norm, sigmoid gates. The value, not query and key, carries relevance; a residual stream of tokens is a layer of vectors
like any other.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.gig.attribution.sharing import TINY, Sharing
from conceptlens.gig.network import Network

Rule = Literal["srd", "gradient"]


@dataclass(frozen=True)
class Relevance:
    """Who takes part in an output, for B images."""

    layers: dict[str, Tensor]  # (B, P) contribution of each position
    pixels: Tensor | None  # (B, H, W)
    features: dict[str, Tensor]  # (B, P, C)
    logits: Tensor  # (B, classes)
    targets: Tensor  # (B,) the outputs that were looked at


def relevance(
    network: Network,
    images: Tensor,
    layers: list[str] | None = None,
    *,
    targets: Tensor | None = None,
    rule: Rule = "srd",
    pixels: bool = True,
) -> Relevance:
    """What positions of layers, and pixels, contribute to an output of each image: all of them in one backward pass.

    Args:
        network: An opened network.
        images: (B, 3, H, W), as the model expects them.
        layers: By default, all of the network's.
        targets: (B,) outputs; by default the largest of each image.
        rule: Sharing ratios, or gradient × input, which is cheaper and coarser.
        pixels: Whether pixels are asked for.
    """
    names = list(network.layers if layers is None else layers)
    with torch.enable_grad():
        graph = Graph(network, images, names, rule)
        chosen = graph.logits.argmax(1) if targets is None else targets.to(graph.logits.device)
        if chosen.shape != (len(images),) or int(chosen.min()) < 0 or int(chosen.max()) >= graph.logits.shape[1]:
            raise UserError(
                f"Targets: expected {len(images)} numbers from 0 to {graph.logits.shape[1] - 1}, got {chosen.tolist()}."
            )
        down = graph.down(graph.logits.gather(1, chosen[:, None]), names, pixels=pixels)
    return Relevance(
        {name: down[name] for name in names},
        down.get(""),
        {name: network.hook_point(name).vectors(graph.raw[name].detach()) for name in names},
        graph.logits.detach(),
        chosen,
    )


class Graph:
    """One forward pass whose backward passes carry relevance; several may start from it, at any layer.

    Args:
        network: An opened network.
        images: (B, 3, H, W).
        layers: From which passes start, or where they end.
        rule: Sharing ratios, or gradient × input.
        whole: Whether the pass goes on to the outputs; receptive fields do without what follows the last layer.
    """

    def __init__(
        self, network: Network, images: Tensor, layers: list[str], rule: Rule = "srd", *, whole: bool = True
    ) -> None:
        if rule not in ("srd", "gradient"):
            raise UserError(f"Unknown rule {rule!r} for contributions: expected 'srd' or 'gradient'.")
        self.network = network
        with torch.enable_grad():
            self.images = images.detach().to(network.device).clone().requires_grad_()
            # The mode is entered inside: what it replaces must also be what the hooks see.
            last = None if whole else max(layers, key=lambda layer: network.hook_point(layer).event)
            with network.watch(layers, stop_at=last) as self.raw, Sharing() if rule == "srd" else nullcontext():
                returned = network._call(self.images)
                self.logits = network._outputs(returned) if whole else torch.empty(0)

    def down(self, start: Tensor, layers: list[str], *, pixels: bool) -> dict[str, Tensor]:
        """Relevance (B, P) of layers, and (B, H, W) of pixels under the empty name, for the sum of `start`."""
        ends = [self.raw[layer] for layer in layers] + ([self.images] if pixels else [])
        slopes = torch.autograd.grad(start.sum(), ends, retain_graph=True, allow_unused=True)
        found: dict[str, Tensor] = {}
        for layer, value, slope in zip(layers, ends, slopes, strict=False):
            shares = torch.zeros_like(value) if slope is None else slope * value.detach()
            found[layer] = self.network.hook_point(layer).vectors(shares).sum(-1)
        if pixels:
            slope = slopes[-1]
            found[""] = torch.zeros_like(self.images[:, 0]) if slope is None else (slope * self.images.detach()).sum(1)
        return found

    def receptive_field(self, layer: str, positions: Tensor) -> Tensor:
        """The instance-specific effective receptive field of one vector an image: pixel shares (B, H, W).

        They sum to one but for what a constant in the network, such as a class token, takes.

        Args:
            layer: One that was watched.
            positions: (B,).
        """
        raw = self.raw[layer]
        rows = torch.arange(len(raw), device=raw.device)
        vector = self.network.hook_point(layer).vectors(raw)[rows, positions.to(raw.device)]  # (B, C)
        size = vector.detach().square().sum(1, keepdim=True).clamp_min(TINY)
        return self.down(vector * vector.detach() / size, [], pixels=True)[""]
