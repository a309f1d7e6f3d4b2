"""MVP-CBM: a concept is read in the layers that prefer it.

C. Wang, K. Zhang, Y. Liu, Z. He, X. Tao, S. K. Zhou: MVP-CBM: Multi-layer Visual Preference-enhanced Concept Bottleneck
Model for Explainable Medical Image Classification, IJCAI 2025. Of layer ℓ with class token c_ℓ and patches V_ℓ, group i
with the text T_i of all its values together, and concept j of group i with text t_ij:

    p_ℓi = softmax_i(σ(cos(P_c c_ℓ, T_i)) / τ₁)                 what of its groups a layer prefers
    v_ℓi = P(pool_i(V_ℓ))                                       patches pooled, in order, to one vector a group
    s_ℓij = scale · p_ℓi cos(v_ℓi, t_ij)                        fused over few layers: `bottleneck.layer_fusion`
    L = L_class(W s, y) + λ₁ L_group(s, c) + λ₂ · share of active layers

`mvp-cbm-released` is the behavior of its published code: dot products in place of cosines, a mask without a gradient,
parts that no optimizer was given, and the concept loss of `bottleneck.batch_softmax_loss`.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import ConceptModel, ConceptOutput
from conceptlens.nn.attention.layer_fusion import LayerFusion, Mask
from conceptlens.nn.heads.bottleneck import Bottleneck, RandInt, Reads
from conceptlens.nn.losses.batch_softmax import batch_softmax_loss
from conceptlens.nn.setup import Setup


class MVPCBM(ConceptModel):
    """Per-layer preferences, pooled patches, cosines with texts, sparse fusion over the layers."""

    needs_layers = True

    def __init__(
        self,
        setup: Setup,
        *,
        similarity: Literal["cosine", "dot"] = "cosine",
        depth: Literal["groups"] | int = 2,
        token_norm: Literal["layer", "none"] = "none",
        preference_temperature: float = 0.2,
        mask: Mask = "straight-through",
        sharpness: float = 0.2,
        threshold: float = 0.5,
        sparsity: float = 0.1,
        batch_loss: float = 0.0,
        learn_bridge: bool = True,
        logit_scale: float = 100.0,
        learn_logit_scale: bool = True,
        space: Reads = "logit",
        randint: RandInt = 0.0,
        class_gradient: float = 1.0,
        calibrate: bool = False,
        head_rate: float = 1.0,
    ) -> None:
        """MVP-CBM.

        Args:
            setup: What the model is built for.
            similarity: How vectors and texts are compared; `dot` as the published code.
            depth: Linear layers of the map from pooled patches to the text space, or `groups`: one for each group,
                as in the published code.
            token_norm: Normalize tokens (without affine) first, or take them as they are.
            preference_temperature: τ₁ at the start; it learns.
            mask: How the mask over layers learns: by the gradient of a soft one, or not at all, as in the
                published code.
            sharpness: τ₂ at the start: how much a layer gains that is far above the threshold.
            threshold: Where between a concept's smallest and largest layer weight a layer is dropped, at the start.
            sparsity: λ₂, the weight of the share of layers that take part.
            batch_loss: Weight of the published code's concept loss, a softmax across the batch.
            learn_bridge: Whether all that lies between encoder and class head learns; false as in the published code.
            logit_scale: Scale of the similarities; preferences share it out over the groups.
            learn_logit_scale: Whether the scale learns.
            space: What the class head reads: logits, probabilities within each group, or their logarithm.
            randint: Chance that a group is set to its labels in training, so that the head learns to take corrections;
                `uniform` draws a chance for each image.
            class_gradient: How much of the class loss reaches the concepts: 1 joint, 0 sequential training.
            calibrate: Fit the probabilities' temperatures on validation after every epoch.
            head_rate: The class head's learning rate as a multiple of the training's.
        """
        super().__init__()
        positive = {"preference_temperature": preference_temperature, "logit_scale": logit_scale}
        for option, value in positive.items():
            if not value > 0:
                raise UserError(f"method.{option}: expected a number above 0, found {value}.")
        for option, value in {"sharpness": sharpness, "sparsity": sparsity, "batch_loss": batch_loss}.items():
            if value < 0:
                raise UserError(f"method.{option}: expected 0 or more, found {value}.")
        if not 0 < threshold < 1:
            raise UserError(f"method.threshold: expected a share between 0 and 1, found {threshold}.")
        if depth != "groups" and not 1 <= depth <= 100:
            raise UserError(f"method.depth: expected 1 to 100, or groups, found {depth}.")
        self.similarity, self.token_norm = similarity, token_norm
        self.sparsity, self.batch_loss = sparsity, batch_loss
        self.space, self.bottleneck = space, Bottleneck(setup.concepts, space, randint, class_gradient, calibrate)
        self.groups = setup.concepts.groups
        self.register_buffer("group_of", torch.as_tensor(setup.concepts.group_of))
        self.register_buffer("text", setup.text.clone())
        self.register_buffer("group_text", _group_texts(setup))
        self.group_of: Tensor
        self.text: Tensor
        self.group_text: Tensor
        self.prefer = nn.Linear(setup.width, setup.text.shape[1])
        self.log_temperature = nn.Parameter(torch.tensor(math.log(preference_temperature)))
        layers = len(self.groups) if depth == "groups" else depth
        self.project = _projector(layers, setup.width, setup.text.shape[1])
        self.fuse = LayerFusion(len(setup.concepts), mask=mask, sharpness=sharpness, threshold=threshold)
        self.log_scale = nn.Parameter(torch.tensor(math.log(logit_scale)), requires_grad=learn_logit_scale)
        if not learn_bridge:
            self.requires_grad_(False)
        self.head = nn.Linear(len(setup.concepts), setup.classes)
        self.set_head_rate(head_rate)

    def preferences(self, tokens: Tokens) -> Tensor:
        """p: how a layer shares its attention among the groups, (B, layers, groups)."""
        classes = self.prefer(self._normalize(torch.stack(tokens.layer_cls, 1))).to(self.text.dtype)
        agreement = self._compare(classes) @ self._compare(self.group_text).T
        return (agreement.sigmoid() / self.log_temperature.exp()).softmax(-1)

    def layer_scores(self, tokens: Tokens) -> Tensor:
        """s: every concept's score in every layer, (B, layers, K)."""
        if {layer.shape[-1] for layer in tokens.layers} != {self.prefer.in_features}:
            raise UserError(
                "encoder.layers: mvp-cbm compares layers that are as wide as the encoder's patches. Name such layers, "
                "or use a ViT, whose blocks all are."
            )
        pooled = torch.stack([_pool(self._normalize(layer), len(self.groups)) for layer in tokens.layers], 1)
        visual = self._compare(self.project(pooled).to(self.text.dtype))  # (B, layers, groups, D_text)
        similarity = (visual[:, :, self.group_of] * self._compare(self.text)).sum(-1)
        return self.log_scale.exp() * self.preferences(tokens)[:, :, self.group_of] * similarity

    def forward(self, tokens: Tokens) -> ConceptOutput:
        fused = self.fuse(self.layer_scores(tokens))
        return self.through_bottleneck(
            fused.scores,
            layer_weights=fused.weights.transpose(1, 2),
            losses={"sparse": self.sparsity * fused.active} if self.sparsity else {},
        )

    def teach(self, output: ConceptOutput, labels: Tensor) -> ConceptOutput:
        """RandInt, and the published code's concept loss, where they are asked for."""
        output = super().teach(output, labels)
        if self.batch_loss:
            loss = self.batch_loss * batch_softmax_loss(output.concept_logits, labels, self.groups)
            output.losses["batch_softmax"] = loss.expand(len(labels))
        return output

    def _normalize(self, tokens: Tensor) -> Tensor:
        return F.layer_norm(tokens, tokens.shape[-1:]) if self.token_norm == "layer" else tokens

    def _compare(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors, dim=-1) if self.similarity == "cosine" else vectors


def _group_texts(setup: Setup) -> Tensor:
    """T: the texts of a group's values read as one, (groups, D_text)."""
    texts = setup.concepts.texts
    return setup.embed([", ".join(texts[group.concepts]) for group in setup.concepts.groups]).to(setup.text)


def _pool(patches: Tensor, parts: int) -> Tensor:
    """Patches (B, L, D), in their order, to the means of so many stretches of about L/parts each, (B, parts, D)."""
    return F.adaptive_avg_pool1d(patches.transpose(1, 2), parts).transpose(1, 2)


def _projector(depth: int, width: int, text_width: int) -> nn.Sequential:
    maps: list[nn.Module] = [nn.Linear(width, text_width)]
    for _ in range(1, depth):
        maps += [nn.GELU(), nn.Linear(text_width, text_width)]
    return nn.Sequential(*maps)
