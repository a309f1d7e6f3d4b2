"""PF-CBM: each concept reads the slot of the part that its name implies.

D. Ramachandram: Spatially Grounded Concept Bottleneck Models via Part-Factorized Attention, 2026 (sections 3.2 to 3.5).

    patches → gate → part queries with a Gaussian prior → slots → routed heads → p = sigmoid(ℓ / τ) → class     Eq. 1-6
    L = w_cls L_cls + w_cpt L_cpt + w_fg L_fg + w_al L_al + w_ent L_ent                                           Eq. 7

The rows of its Table 2 are options: `foreground`, `keypoints` and `prior`. What the targets by place are made of is in
`nn.grounding.part_targets`; points and prior are those that any `GroundedModel` can take.
"""

import torch
from torch import nn

from conceptlens.concepts.part_map import WHOLE, part_map
from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import ConceptOutput
from conceptlens.methods.grounded import GroundedModel
from conceptlens.nn.grounding.foreground_gate import HIDDEN, foreground_loss
from conceptlens.nn.grounding.gaussian_prior import GaussianPrior, Shape
from conceptlens.nn.grounding.object_frame import Pose
from conceptlens.nn.grounding.part_attention import INNER, attention_entropy, centroids
from conceptlens.nn.grounding.part_grounding import PartGrounding
from conceptlens.nn.grounding.part_places import check_places
from conceptlens.nn.grounding.part_targets import Foreground, Keypoints, PartTargets
from conceptlens.nn.grounding.places import PlaceTargets
from conceptlens.nn.grounding.routing import RoutedScores
from conceptlens.nn.heads.bottleneck import Bottleneck, RandInt, Reads
from conceptlens.nn.heads.concept_temperature import ConceptTemperature
from conceptlens.nn.setup import Setup

WHOLE_NAME = "whole"


class PFCBM(GroundedModel):
    """Part slots by gated, prior-guided attention; concepts hard-routed to them."""

    uses_text = False
    has_attention = True
    grounding: PartGrounding

    def __init__(
        self,
        setup: Setup,
        *,
        parts: str = "auto",
        foreground: Foreground = "pca",
        keypoints: Keypoints = "none",
        prior: bool = True,
        keypoint_fraction: float = 1.0,
        sigma: float | None = None,
        shape: Shape = "isotropic",
        pose: Pose = "image",
        inner: int = INNER,
        hidden: int = HIDDEN,
        foreground_weight: float = 1.0,
        alignment_weight: float = 0.1,
        entropy_weight: float = 0.001,
        grounding_rate: float = 0.1,
        prior_rate: float = 0.1,
        space: Reads = "probability",
        randint: RandInt = 0.0,
        class_gradient: float = 1.0,
        calibrate: bool = False,
        head_rate: float = 1.0,
    ) -> None:
        """PF-CBM.

        Args:
            setup: What the model is built for.
            parts: Which part each concept reads: a file, a ready map by name, `concepts` for the concept file's own
                parts, or `auto`: the ready map of the concept set, else `concepts`.
            foreground: What the gate learns from: the object's `box`, a `pca` of the patches, the same drawn
                `pca-tight`, or `none`.
            keypoints: What each part's attention is drawn to: the points marked in every image, `pseudo` points, or
                `none`.
            prior: A learnable Gaussian for each part.
            keypoint_fraction: Share of the training images whose points tell where the Gaussians begin, or name the
                pseudo points.
            sigma: Their width at the start, in patches; the paper's 5 of a grid of 32, as much of another by default.
            shape: `isotropic` as the paper; `diagonal` or `full` for elongated parts.
            pose: The Gaussians' frame: of the `image` as the paper, of the `object` that the gate sees, or `mirrored`:
                that turned to face one side.
            inner: Width of queries, keys, values and slots.
            hidden: Width of the gate's hidden layer.
            foreground_weight: Of the gate's loss.
            alignment_weight: Of the loss between centroids and points, in patches.
            entropy_weight: Of the entropy of all attention, of the whole too. Much of it drowns the Gaussians; points
                bear 0.01.
            grounding_rate: Learning rate of gate, attention and heads, relative to that of class head and temperatures.
            prior_rate: The same for the Gaussians.
            space: What the class head reads: logits, probabilities within each group, or their logarithm.
            randint: Chance that a group is set to its labels in training, so that the head learns to take corrections;
                `uniform` draws a chance for each image.
            class_gradient: How much of the class loss reaches the concepts: 1 joint, 0 sequential training.
            calibrate: Fit the probabilities' temperatures on validation after every epoch.
            head_rate: The class head's learning rate as a multiple of the training's.
        """
        super().__init__()
        check_places(keypoint_fraction, sigma, alignment_weight)
        _check(inner, hidden, foreground_weight, entropy_weight)
        self.space, self.bottleneck = space, Bottleneck(setup.concepts, space, randint, class_gradient, calibrate)
        routes = part_map(setup.concepts, parts)
        self.has_whole = bool((routes.of == WHOLE).any())
        if not routes.parts:
            raise UserError(
                f"method.parts: every concept of {setup.concepts.name} reads the whole; name one or more parts."
            )
        self.foreground_weight, self.entropy_weight = foreground_weight, entropy_weight
        slot = torch.from_numpy(routes.of).clone()
        slot[slot == WHOLE] = len(routes.parts)
        self.register_buffer("concept_slot", slot)
        gaussians = GaussianPrior(len(routes.parts), sigma=sigma, shape=shape) if prior else None
        self.grounding = PartGrounding(
            len(routes.parts),
            setup.width,
            inner=inner,
            hidden=hidden,
            whole=self.has_whole,
            prior=gaussians,
            pose=pose,
            targets=PartTargets(routes, foreground, keypoints, prior, keypoint_fraction, pose),
            alignment_weight=alignment_weight,
        )
        self.score = RoutedScores(slot, inner)
        self.temperature = ConceptTemperature(len(setup.concepts))
        self.head = nn.Linear(len(setup.concepts), setup.classes)
        self.set_head_rate(head_rate)
        for parameter in (*self.grounding.parameters(), *self.score.parameters()):
            parameter.rate = grounding_rate  # type: ignore[attr-defined]  # read by the optimizer
        for parameter in gaussians.parameters() if gaussians else ():
            parameter.rate = prior_rate  # type: ignore[attr-defined]

    @property
    def slot_names(self) -> tuple[str, ...]:
        """What each slot is the slot of."""
        return (*self.part_names, *([WHOLE_NAME] if self.has_whole else []))

    def forward(self, tokens: Tokens) -> ConceptOutput:
        found = self.grounding(tokens)
        scores = self.temperature(self.score(found.slots))
        weight = self.entropy_weight
        return self.through_bottleneck(
            scores,
            slots=found.slots,
            attention=found.attention,
            gate=found.gate,
            centroids=centroids(found.attention, found.places),
            losses={"entropy": weight * attention_entropy(found.attention)} if weight else {},
        )

    def teach_places(self, output: ConceptOutput, places: PlaceTargets) -> ConceptOutput:
        if places.foreground is not None and places.foreground_known is not None and self.foreground_weight:
            assert output.gate is not None
            surprise = foreground_loss(output.gate, places.foreground, places.foreground_known)
            output.losses = {**output.losses, "foreground": self.foreground_weight * surprise}
        return super().teach_places(output, places)

    def end_epoch(self, tokens: Tokens) -> dict[str, float]:
        """How far the Gaussians have moved and how wide they are, in patches, and their say beside the queries'."""
        if self.grounding.prior is None:
            return {}
        queries, gaussians = self.grounding.say(tokens)
        return {**super().end_epoch(tokens), "prior_say": gaussians, "query_say": queries}


def _check(inner: int, hidden: int, *weights: float) -> None:
    if inner < 1 or hidden < 1:
        raise UserError(f"method.inner, method.hidden: expected widths of 1 or more, found {inner} and {hidden}.")
    if min(weights) < 0:
        raise UserError(f"method: expected weights of 0 or more for foreground and entropy, found {weights}.")
