"""Patches to part slots that know their place: gate, part attention with a prior, and the token of the whole (PF-CBM,
sections 3.2 to 3.4). Any method whose concepts read slots can use it in place of its own queries; one that keeps its
own attention takes `part_places` alone."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.concepts.part_map import WHOLE
from conceptlens.encoders.contract import Tokens
from conceptlens.nn.grounding.foreground_gate import HIDDEN, ForegroundGate, log_gate
from conceptlens.nn.grounding.gaussian_prior import GaussianPrior, patch_centers
from conceptlens.nn.grounding.object_frame import Pose, object_frame
from conceptlens.nn.grounding.part_attention import INNER, PartAttention, gather
from conceptlens.nn.grounding.part_places import PartPlaces
from conceptlens.nn.grounding.part_targets import PartTargets


@dataclass(frozen=True)
class Grounded:
    """What B images hold, slot by slot; the slot of the whole, if there is one, comes last."""

    slots: Tensor  # (B, S, d)
    attention: Tensor  # (B, S, L)
    gate: Tensor  # (B, L), logits
    places: Tensor  # Φ, (L, 2)


class PartGrounding(PartPlaces):
    """P part queries and perhaps one for the whole.

    Args:
        parts: P.
        width: D of the patches.
        inner: d of the slots.
        hidden: Width of the gate.
        whole: Whether concepts read the object as a whole: a query without a prior.
        prior: Where parts are expected; None: nothing tells one query from another.
        pose: The frame in which the prior holds: of the image, or of the object (see `object_frame`).
        targets: What is looked for in the training images before training.
        alignment_weight: Weight of the loss between centers of attention and points, in patches.
    """

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
        targets: PartTargets | None = None,
        alignment_weight: float = 0.1,
    ) -> None:
        slot_part = torch.tensor([*range(parts), *([WHOLE] if whole else [])])
        super().__init__(slot_part, targets, pose=pose, alignment_weight=alignment_weight)
        self.gate = ForegroundGate(width, hidden)
        self.parts = PartAttention(parts, width, inner)
        self.whole = PartAttention(1, width, inner) if whole else None
        self.prior = prior  # behind the rest: the order of parameters is that of older runs

    def forward(self, tokens: Tokens) -> Grounded:
        gate = self.gate(tokens.patches)
        bias, asked = log_gate(gate)[:, None], self.parts.asked()
        places = patch_centers(tokens.grid, bias)
        prior = None if self.prior is None else self.prior(self.framed(places, gate))
        if self.whole is not None:  # without a prior; patches are read once for all queries
            asked = torch.cat((asked, self.whole.asked()))
            prior = None if prior is None else F.pad(prior, (0, 0, 0, 1))
        gathered, attention = gather(tokens.patches, asked, bias if prior is None else bias + prior)
        if self.whole is None:
            return Grounded(self.parts.slots(gathered), attention, gate, places)
        slots = torch.cat((self.parts.slots(gathered[:, :-1]), self.whole.slots(gathered[:, -1:])), 1)
        return Grounded(slots, attention, gate, places)

    @torch.no_grad()
    def say(self, tokens: Tokens) -> tuple[float, float]:
        """How far queries and prior tell patches apart: standard deviations over patches of the logits they add.

        Where the queries' is many times the prior's, the prior no longer has a say in where parts are looked for.
        """
        logits = self.parts.asked() @ tokens.patches.to(self.parts.queries.dtype).mT
        if self.prior is None:
            return float(logits.std(-1).mean()), 0.0
        places = patch_centers(tokens.grid, logits)
        prior = self.prior(self.framed(places, self.gate(tokens.patches)))
        return float(logits.std(-1).mean()), float(prior.std(-1).mean())

    def framed(self, places: Tensor, gate: Tensor) -> Tensor:
        """Places as the prior sees them: (L, 2), or (B, L, 2) in the frame of each image's object."""
        if self.pose == "image":
            return places
        mirrored = self.pose == "mirrored"
        return object_frame(places, gate.float().sigmoid(), self.center, self.spread, mirrored=mirrored)
