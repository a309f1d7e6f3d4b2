"""Explicd: one learned query per group finds the visual evidence for that group's criteria.

Y. Gao, D. Gu, M. Zhou, D. Metaxas: Aligning Human Knowledge with Visual Concepts Towards Explainable Medical Image
Classification, MICCAI 2024. For group a with criteria texts t_a1 … t_an (the anchors):

    v_a = P · norm(FFN(CrossAttention(q_a, patches)))           the visual concept, at unit length
    p_ai = softmax_i(s ⟨v_a, t_ai⟩)                             how well each criterion fits
    L = L_class(W p, y) + mean_a −log p_a,true                  criteria-anchor alignment: `loss.concept: group`

`explicd-released` is the behavior of its published code (see the presets).
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import ConceptOutput
from conceptlens.methods.grounded import GroundedModel
from conceptlens.nn.attention.cross_attention import CrossAttention
from conceptlens.nn.grounding.part_places import Places, part_places
from conceptlens.nn.heads.bottleneck import Bottleneck, RandInt, Reads
from conceptlens.nn.heads.text_projection import text_projection
from conceptlens.nn.setup import Setup


class Explicd(GroundedModel):
    """Group queries, cross-attention, cosines with the criteria's texts."""

    has_attention = True

    def __init__(
        self,
        setup: Setup,
        *,
        space: Reads = "probability",
        randint: RandInt = 0.0,
        class_gradient: float = 1.0,
        calibrate: bool = False,
        head_rate: float = 1.0,
        heads: int | None = None,
        token_norm: Literal["layer", "none"] = "none",
        query_rate: float = 1.0,
        project: Literal["linear", "ffn"] = "ffn",
        logit_scale: float = 10.0,
        learn_logit_scale: bool = True,
        places: Places = "none",
        parts: str = "auto",
        keypoint_fraction: float = 1.0,
        sigma: float | None = None,
        alignment_weight: float = 0.1,
    ) -> None:
        """Explicd.

        Args:
            setup: What the model is built for.
            space: What the class head reads: logits, probabilities within each group, or their logarithm.
            randint: Chance that a group is set to its labels in training, so that the head learns to take corrections;
                `uniform` draws a chance for each image.
            class_gradient: How much of the class loss reaches the concepts: 1 joint, 0 sequential training.
            calibrate: Fit the probabilities' temperatures on validation after every epoch.
            head_rate: The class head's learning rate as a multiple of the training's.
            heads: Heads of the cross-attention; 12, or the most up to 12 that divide the width, if not given.
            token_norm: Normalize tokens (without affine) before attention, or take them as they are.
            query_rate: The queries' learning rate as a multiple of the training's.
            project: To the text space: FFN, norm and linear map, or a linear map alone.
            logit_scale: Scale of the cosines, the inverse of the contrastive loss's temperature.
            learn_logit_scale: Whether the scale learns.
            places: What tells the attention where parts are: nothing; `points` marked in the training images; or a
                `prior`, a learnable Gaussian for each part.
            parts: Which part each concept speaks of, for `places`: as for `pf-cbm`, but a concept without a part speaks
                of the whole.
            keypoint_fraction: Share of the training images whose points tell where the Gaussians begin.
            sigma: Width of the Gaussians at the start, in patches; 5 on a grid of 32, as much of another by default.
            alignment_weight: Weight of the loss between centers of attention and points.
        """
        super().__init__()
        if logit_scale <= 0:
            raise UserError(f"method.logit_scale: expected a number above 0, found {logit_scale}.")
        if heads is not None and (heads < 1 or setup.width % heads):
            raise UserError(f"method.heads: expected a divisor of the encoder's width {setup.width}, found {heads}.")
        self.space, self.bottleneck = space, Bottleneck(setup.concepts, space, randint, class_gradient, calibrate)
        self.register_buffer("concept_slot", torch.as_tensor(setup.concepts.group_of))
        self.concept_slot: Tensor
        self.register_buffer("text", setup.text.clone())
        self.text: Tensor
        self.attend = CrossAttention(
            len(setup.concepts.groups), setup.width, heads=heads, token_norm=token_norm, query_rate=query_rate
        )
        self.project = text_projection(project, setup.width, setup.text.shape[1])
        self.log_scale = nn.Parameter(torch.tensor(math.log(logit_scale)), requires_grad=learn_logit_scale)
        self.head = nn.Linear(len(setup.concepts), setup.classes)
        self.set_head_rate(head_rate)
        self.grounding = part_places(
            setup.concepts,
            self.concept_slot,
            places=places,
            parts=parts,
            keypoint_fraction=keypoint_fraction,
            sigma=sigma,
            alignment_weight=alignment_weight,
        )

    def forward(self, tokens: Tokens) -> ConceptOutput:
        slots, attention = self.attend(tokens.patches, self.expected_logits(tokens.grid))
        visual = F.normalize(self.project(slots).to(self.text.dtype), dim=-1)
        scores = self.log_scale.exp() * (visual[:, self.concept_slot] * self.text).sum(-1)
        centers = self.centers(attention, tokens.grid)
        return self.through_bottleneck(scores, slots=slots, attention=attention, centroids=centers)
