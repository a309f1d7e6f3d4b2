"""Patches to part slots that know their place: gate, part attention with a prior, and the token of the whole (PF-CBM,
sections 3.2 to 3.4). Any method whose concepts read slots can use it in place of its own queries."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from conceptlens.bottleneck.foreground_gate import HIDDEN, ForegroundGate, log_gate
from conceptlens.bottleneck.gaussian_prior import GaussianPrior, patch_centres
from conceptlens.bottleneck.object_frame import Pose, object_frame
from conceptlens.bottleneck.part_attention import INNER, PartAttention
from conceptlens.encoders.contract import Tokens


@dataclass(frozen=True)
class Grounded:
    """What B images hold, slot by slot; the slot of the whole, if there is one, comes last."""

    slots: Tensor  # (B, S, d)
    attention: Tensor  # (B, S, L)
    gate: Tensor  # (B, L), logits
    places: Tensor  # Φ, (L, 2)


class PartGrounding(nn.Module):
    """P part queries and perhaps one for the whole.

    Args:
        parts: P.
        width: D of the patches.
        inner: d of the slots.
        hidden: Width of the gate.
        whole: Whether concepts read the object as a whole: a query without a prior.
        prior: Where parts are expected; None: nothing tells one query from another.
        pose: The frame in which the prior holds: of the image, or of the object (see `object_frame`).
    """

    centre: Tensor
    spread: Tensor
    grid: Tensor

    def __init__(
        self,
        parts: int,
        width: int,
        *,
        inner: int = INNER,
        hidden: int = HIDDEN,
        whole: bool = False,
        prior: GaussianPrior | None = None,
        pose: Pose = "image",
    ) -> None:
        super().__init__()
        self.pose = pose
        self.gate = ForegroundGate(width, hidden)
        self.parts = PartAttention(parts, width, inner)
        self.whole = PartAttention(1, width, inner) if whole else None
        self.prior = prior
        self.register_buffer("centre", torch.zeros(2))  # of a typical object, in patches; for poses only
        self.register_buffer("spread", torch.ones(()))
        self.register_buffer(
            "grid", torch.zeros(2, dtype=torch.int64)
        )  # of the training images: what means are places on

    def forward(self, tokens: Tokens) -> Grounded:
        gate = self.gate(tokens.patches)
        seen = log_gate(gate)[:, None]
        places = patch_centres(tokens.grid, seen)
        bias = seen if self.prior is None else seen + self.prior(self.framed(places, gate))
        slots, attention = self.parts(tokens.patches, bias)
        if self.whole is not None:
            slot, map_ = self.whole(tokens.patches, seen)
            slots, attention = torch.cat((slots, slot), 1), torch.cat((attention, map_), 1)
        return Grounded(slots, attention, gate, places)

    def framed(self, places: Tensor, gate: Tensor) -> Tensor:
        """Places as the prior sees them: (L, 2), or (B, L, 2) in the frame of each image's object."""
        if self.pose == "image":
            return places
        mirrored = self.pose == "mirrored"
        return object_frame(places, gate.float().sigmoid(), self.centre, self.spread, mirrored=mirrored)
