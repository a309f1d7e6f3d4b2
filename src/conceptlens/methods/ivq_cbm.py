"""IVQ-CBM: patches → Magnet slots → concept scores against texts → class (sections 3.1 to 3.4, Appendix B).

`ivq-cbm` follows the paper's equations; `ivq-cbm-released` is the behavior of its published code (see the presets).
The regularizer (IVQ, Eq. 4) is a part of its own: `nn/quantization/quantization.py`.
"""

import math
from collections.abc import Callable, Iterable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import ConceptOutput
from conceptlens.methods.grounded import GroundedModel
from conceptlens.nn.attention.cross_attention import CrossAttention
from conceptlens.nn.attention.magnet import Magnet, Pooling
from conceptlens.nn.grounding.part_places import Places, part_places
from conceptlens.nn.heads.bottleneck import Bottleneck, RandInt, Reads
from conceptlens.nn.heads.text_projection import text_projection
from conceptlens.nn.setup import Setup


def centered(text: Tensor) -> Tensor:
    """Unit vectors (K, T) less their mean, of unit length again."""
    return F.normalize(text - text.mean(0), dim=-1)


def orthogonal(text: Tensor) -> Tensor:
    """The vectors at right angles to each other that lie closest to these (Löwdin's orthogonalisation): U Vᵀ of U Σ Vᵀ.

    Of more concepts than dimensions, a tight frame: as evenly spread as they can be.
    """
    left, _, right = torch.linalg.svd(text.double(), full_matrices=False)
    return F.normalize((left @ right).to(text.dtype), dim=-1)


TEXTS: dict[str, Callable[[Tensor], Tensor]] = {
    "raw": lambda text: text,
    "centered": centered,
    "orthogonal": orthogonal,
}


class IVQCBM(GroundedModel):
    """The bottleneck of IVQ-CBM, with the ablations of its Table 3 as options."""

    def __init__(
        self,
        setup: Setup,
        *,
        aggregate: Literal["magnet", "cross-attention", "cls", "mean"] = "magnet",
        slots: Literal["concept", "group"] = "concept",
        temperature: float | Literal["calibrate"] = "calibrate",
        learn_temperature: bool = False,
        target_entropy: float = 0.5,
        hold_entropy: bool = True,
        token_norm: Literal["layer", "none"] = "layer",
        pooling: Pooling = "sum",
        patch_entropy: float = 0.85,
        spare: int = 0,
        query_init: Literal["kmeans", "normal"] = "kmeans",
        learn_queries: bool = True,
        query_rate: float = 1.0,
        refill: bool = True,
        project: Literal["linear", "ffn"] = "linear",
        logit_scale: float = 10.0,
        learn_logit_scale: bool = True,
        logit_bias: bool = True,
        text: Literal["raw", "centered", "orthogonal"] = "raw",
        space: Reads = "logit",
        randint: RandInt = 0.0,
        class_gradient: float = 1.0,
        calibrate: bool = False,
        head_rate: float = 1.0,
        places: Places = "none",
        parts: str = "auto",
        keypoint_fraction: float = 1.0,
        sigma: float | None = None,
        alignment_weight: float = 0.1,
    ) -> None:
        """IVQ-CBM.

        Args:
            setup: What the model is built for.
            aggregate: Magnet attention, cross-attention as Explicd's, the class token ([CLS] of Table 3), or the mean
                of the patches.
            slots: One query per concept, as the paper, or per group, as its published code.
            temperature: τ of Eq. 5; 1 as printed, or `calibrate`: set from training images before training.
            learn_temperature: Whether τ learns from there on; it is then not calibrated again.
            target_entropy: Mean entropy of the assignment that calibration aims at, as a share of the largest.
            hold_entropy: Calibrate again after each epoch; otherwise tokens and queries part and slots starve.
            token_norm: Normalize tokens (without affine) before distances and sums, or take them as they are.
            pooling: Weighted sum, as Eq. 6 is printed, weighted average, as its words say, or `product`: an average by
                how far a patch belongs to the slot times how far the slot looks at the patch.
            patch_entropy: With `product`, the mean entropy of a slot's look over patches that calibration aims at, as a
                share of the largest.
            spare: Slots that no concept reads, for patches that no concept is about.
            query_init: Start of Magnet's queries: k-means of training tokens, or N(0, 1) as the published code.
            learn_queries: Whether the queries learn; in the published code they do not.
            query_rate: The queries' learning rate as a multiple of the training's.
            refill: Move the query of a slot that holds no patches at an epoch's end to where patches are.
            project: To the text space: one linear map, or the published code's FFN, norm and linear map.
            logit_scale: Scale of the scores; Eq. 1 on unit vectors stays in [−1, 1], where no BCE can become small.
            learn_logit_scale: Whether the scale learns.
            logit_bias: Whether each concept has a bias that learns.
            text: The concepts' vectors as they are; less their mean, as texts on one subject lie close together, and
                one direction says nearly the same of all of them; or at right angles to each other, as close to the
                texts as that can be, so that each can be read without the others.
            space: What the class head reads: logits, probabilities within each group, or their logarithm.
            randint: Chance that a group is set to its labels in training, so that the head learns to take corrections;
                `uniform` draws a chance for each image.
            class_gradient: How much of the class loss reaches the concepts: 1 joint, 0 sequential training.
            calibrate: Fit the probabilities' temperatures on validation after every epoch.
            head_rate: The class head's learning rate as a multiple of the training's.
            places: What tells the attention where parts are: nothing; `points` marked in the training images; or a
                `prior`, a learnable Gaussian for each part.
            parts: Which part each concept speaks of, for `places`: as for `pf-cbm`, but a concept without a part speaks
                of the whole.
            keypoint_fraction: Share of the training images whose points tell where the Gaussians begin.
            sigma: Width of the Gaussians at the start, in patches; 5 on a grid of 32, as much of another by default.
            alignment_weight: Weight of the loss between centers of attention and points.
        """
        super().__init__()
        for option, fine, words, found in (
            (
                "temperature",
                temperature == "calibrate" or temperature > 0,
                "calibrate or a number above 0",
                temperature,
            ),
            ("target_entropy", 0 < target_entropy < 1, "a share between 0 and 1", target_entropy),
            ("patch_entropy", 0 < patch_entropy < 1, "a share between 0 and 1", patch_entropy),
            ("spare", spare >= 0, "0 or more", spare),
            ("query_rate", query_rate >= 0, "0 or more", query_rate),
            ("logit_scale", logit_scale > 0, "a number above 0", logit_scale),
        ):
            if not fine:
                raise UserError(f"method.{option}: expected {words}, found {found}.")
        self.aggregate, self.refills, self.holds = aggregate, refill, hold_entropy and not learn_temperature
        self.space, self.bottleneck = space, Bottleneck(setup.concepts, space, randint, class_gradient, calibrate)
        groups = torch.as_tensor(setup.concepts.group_of)
        concept_slot = torch.arange(len(groups)) if slots == "concept" else groups
        self.has_attention = aggregate in ("magnet", "cross-attention")
        if not self.has_attention:
            concept_slot = torch.zeros_like(groups)
        self.register_buffer("concept_slot", concept_slot)
        self.concept_slot: Tensor
        self.register_buffer("text", TEXTS[text](setup.text.clone()))
        self.text: Tensor
        if aggregate == "cross-attention":
            self.cross_attention = CrossAttention(
                int(concept_slot.max()) + 1,
                setup.width,
                token_norm=token_norm,
                learn_queries=learn_queries,
                query_rate=query_rate,
            )
        elif aggregate == "magnet":
            self.magnet = Magnet(
                int(concept_slot.max()) + 1,
                setup.width,
                temperature=temperature,
                learn_temperature=learn_temperature,
                target_entropy=target_entropy,
                token_norm=token_norm,
                pooling=pooling,
                patch_entropy=patch_entropy,
                spare=spare,
                query_init=query_init,
                learn_queries=learn_queries,
                query_rate=query_rate,
            )
        self.project = text_projection(project, setup.width, setup.text.shape[1])
        self.log_scale = nn.Parameter(torch.tensor(math.log(logit_scale)), requires_grad=learn_logit_scale)
        self.bias = nn.Parameter(torch.zeros(len(groups)), requires_grad=logit_bias)
        self.head = nn.Linear(len(groups), setup.classes)
        self.set_head_rate(head_rate)
        if places != "none" and not self.has_attention:
            raise UserError(
                f"method.places: {places} tells attention where parts are, but aggregate: {aggregate} has none. "
                "Set aggregate to magnet or cross-attention, or places: none."
            )
        self.grounding = part_places(
            setup.concepts,
            concept_slot,
            places=places,
            parts=parts,
            keypoint_fraction=keypoint_fraction,
            sigma=sigma,
            alignment_weight=alignment_weight,
        )

    def prepare(self, tokens: Iterable[Tokens], concepts: ConceptSet) -> ConceptSet:
        pieces = list(tokens)
        if self.aggregate == "magnet":
            self.magnet.prepare(piece.patches for piece in pieces)
        return super().prepare(pieces, concepts)

    def gather(self, tokens: Tokens) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Slots (B, S, D), their attention (B, S, L) and, for Magnet, how it shares the patches (B, L, S + spare)."""
        if self.aggregate == "magnet":
            slots, weights, assignment = self.magnet(tokens.patches, self.expected_logits(tokens.grid))
            return slots, weights, assignment
        if self.aggregate == "cross-attention":
            return *self.cross_attention(tokens.patches, self.expected_logits(tokens.grid)), None
        if self.aggregate == "mean":
            return tokens.patches.mean(1, keepdim=True), None, None
        if tokens.cls is None:
            raise UserError("method.aggregate: cls needs an encoder with a class token; this one has none.")
        return tokens.cls.unsqueeze(1), None, None

    def forward(self, tokens: Tokens) -> ConceptOutput:
        slots, attention, assignment = self.gather(tokens)
        visual = F.normalize(self.project(slots).to(self.text.dtype), dim=-1)
        cosines = (visual[:, self.concept_slot] * self.text).sum(-1)  # Eq. 1: v_k = M_k · τ_k
        scores = self.log_scale.exp() * cosines + self.bias
        return self.through_bottleneck(
            scores,
            slots=slots,
            attention=attention,
            assignment=assignment,
            centroids=None if attention is None else self.centers(attention, tokens.grid),
        )

    def end_epoch(self, tokens: Tokens) -> dict[str, float]:
        told = super().end_epoch(tokens)
        if not (self.aggregate == "magnet" and self.magnet.queries.requires_grad):
            return told
        refilled = self.magnet.refill(tokens.patches) if self.refills else 0
        if self.holds:
            self.magnet.calibrate(self.magnet.normalize(tokens.patches))
        temperature = float(self.magnet.log_temperature.detach().exp())
        return {**told, "slots_refilled": float(refilled), "temperature": temperature}
