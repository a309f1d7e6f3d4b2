"""evidence-cbm: a concept's logit is the sum of what each patch adds to it, and these sums are the map.

Ours. The reader is `nn.attention.additive_reader`; the bottleneck is that of every preset that takes corrections.

    logit_k = Σ_l E_lk + u_k            u_k = b̄_k, and ⟨v̄_k, norm(class token)⟩ if `class_token`
    p = softmax or sigmoid of logit / T     class = W · log p (+ a declared residual)

What is exact: the sum over tokens, at the attention that the image has. What is not: tokens have seen other patches,
so that pixels behind a patch may matter less or more than its evidence says. `faithfulness` measures that.

It reads the encoder's last patches and the further layers that are handed on. A regularizer such as IVQ acts on the
last patches, which the further layers bypass: nothing of this method says anything about IVQ.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import DRAWS, ConceptOutput
from conceptlens.methods.grounded import GroundedModel
from conceptlens.nn.attention.additive_reader import AdditiveReader, AttentionPer, Evidence, Fusion
from conceptlens.nn.grounding.part_attention import attention_entropy
from conceptlens.nn.grounding.part_places import Places, part_places
from conceptlens.nn.heads.bottleneck import Bottleneck, RandInt, Reads
from conceptlens.nn.setup import Setup

RESIDUAL = "a linear reading of the image's class token is added to the class logits"


class EvidenceCBM(GroundedModel):
    """Evidence of patches, summed to concepts; a linear class head on them."""

    uses_text = False
    has_attention = True
    has_evidence = True

    def __init__(
        self,
        setup: Setup,
        *,
        attention: AttentionPer = "group",
        temperature: float = 1.0,
        patch_dropout: float = 0.0,
        patch_loss: float = 0.0,
        fusion: Fusion = "concatenation",
        gated: bool = False,
        entropy_weight: float = 0.0,
        class_token: bool = False,
        residual: bool = False,
        space: Reads = "log-probability",
        randint: RandInt = "uniform",
        class_gradient: float = 0.0,
        calibrate: bool = True,
        head_rate: float = 5.0,
        places: Places = "none",
        parts: str = "auto",
        keypoint_fraction: float = 1.0,
        sigma: float | None = None,
        alignment_weight: float = 0.1,
    ) -> None:
        """evidence-cbm.

        Args:
            setup: What the model is built for.
            attention: What has an attention of its own: each `group`, each `concept`, or nothing: one is `shared`.
                `uniform`: all patches count the same.
            temperature: Of the attention's softmax; below 1, fewer patches count.
            patch_dropout: Share of the patches hidden from the reader while it trains, so that it needs no single one.
            patch_loss: Weight of the concept loss of single patches: above 0, each patch that counts is held to the
                label alone, so that patches agree and the map is cleaner.
            fusion: Layers side by side, or one learned `mixture` of them for attention and evidence alike.
            gated: Give the attention a hidden layer with gates.
            entropy_weight: Weight of the attention's entropy in the loss: above 0, fewer patches count.
            class_token: Let the class token add to the logits too. That part has no place; explanations state it.
            residual: Let the class token reach the class past the concepts: a declared bypass.
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
        if entropy_weight < 0:
            raise UserError(f"method.entropy_weight: expected 0 or more, found {entropy_weight}.")
        if patch_loss < 0:
            raise UserError(f"method.patch_loss: expected 0 or more, found {patch_loss}.")
        count = len(setup.concepts)
        self.space, self.bottleneck = space, Bottleneck(setup.concepts, space, randint, class_gradient, calibrate)
        self.entropy_weight, self.patch_loss = entropy_weight, patch_loss
        widths = (*setup.layer_widths, setup.width)
        self.reader = AdditiveReader(
            setup.concepts,
            widths,
            attention=attention,
            temperature=temperature,
            dropout=patch_dropout,
            alone=patch_loss > 0,
            fusion=fusion,
            gated=gated and attention != "uniform",
        )
        self.draws = 1 if patch_dropout else 0
        self.register_buffer("concept_slot", self.reader.concept_slot.clone())
        self.unplaced = nn.Parameter(0.02 * torch.randn(count, setup.width)) if class_token else None
        self.head = nn.Linear(count, setup.classes)
        self.set_head_rate(head_rate)
        self.residual = nn.Linear(setup.width, setup.classes, bias=False) if residual else None
        self.bypass = RESIDUAL if residual else None
        self.grounding = part_places(
            setup.concepts,
            self.reader.concept_slot,
            places=places,
            parts=parts,
            keypoint_fraction=keypoint_fraction,
            sigma=sigma,
            alignment_weight=alignment_weight,
        )

    def seen(self, tokens: Tokens) -> Tensor | None:
        """Vectors of the patches that evidence is read from, (B, L, D'); None: the tokens that attention looks at."""
        return None

    def read(self, tokens: Tokens) -> Evidence:
        """Concept logits from patches."""
        layers, draws = (*tokens.layers, tokens.patches), tokens.aux.get(DRAWS)
        found: Evidence = self.reader(layers, self.expected_logits(tokens.grid), self.seen(tokens), draws)
        return found

    def forward(self, tokens: Tokens) -> ConceptOutput:
        read = self.read(tokens)
        scores, unplaced = read.logits, self.reader.centered_bias().expand(read.logits.shape[0], -1)
        summary = tokens.patches.mean(1) if tokens.cls is None else tokens.cls
        if self.unplaced is not None:
            added = F.linear(F.layer_norm(summary, summary.shape[-1:]).float(), self.reader.center(self.unplaced))
            scores, unplaced = scores + added, unplaced + added
        output = self.through_bottleneck(
            scores,
            attention=read.attention,
            centroids=self.centers(read.attention, tokens.grid),
            losses={"entropy": self.entropy_weight * attention_entropy(read.attention)} if self.entropy_weight else {},
        )
        if read.alone is not None and read.shares is not None:  # the loss tells patches what to say, not where to look
            output.patch_logits, output.patch_shares = read.alone, read.shares.detach()
            output.patch_loss_weight = self.patch_loss
        if read.evidence is not None:  # at the temperature of the concept logits that it adds up to
            scale = self.bottleneck.calibrated(torch.ones_like(scores))
            output.evidence, output.unplaced = read.evidence * scale.unsqueeze(-1), unplaced * scale
        if self.residual is not None:
            output.context = self.residual(summary)
            output.logits = output.logits + output.context
        return output

    def decide_within(self, bottleneck: Tensor, context: Tensor) -> Tensor:
        """The class of other concepts in an image whose residual stays as it is."""
        return self.decide(bottleneck) + context
