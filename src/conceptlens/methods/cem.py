"""CEM: a concept is a vector, mixed of how it looks when present and when absent.

M. Espinosa Zarlenga, P. Barbiero, G. Ciravegna, G. Marra et al.: Concept Embedding Models: Beyond the
Accuracy-Explainability Trade-Off, NeurIPS 2022, section 3. For concept i of an image with the vector h:

    ĉ_i⁺ = a(W_i⁺ h + b_i⁺),  ĉ_i⁻ = a(W_i⁻ h + b_i⁻)      m entries each, a: leaky ReLU
    p_i = s([ĉ_i⁺, ĉ_i⁻])                                   one scoring function s for all concepts
    ĉ_i = p_i ĉ_i⁺ + (1 − p_i) ĉ_i⁻                         and the class is linear in all ĉ_i

The class head reads K · m numbers that depend on the image, not K: a bypass. An intervention sets p_i to 0 or 1 and
leaves the embeddings; so that the head learns to follow, some are made while training (RandInt, section 3.3).
"""

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import ConceptModel, ConceptOutput, Space
from conceptlens.nn.attention.global_token import Pool, global_token
from conceptlens.nn.heads.bottleneck import Bottleneck, RandInt
from conceptlens.nn.setup import Setup

BYPASS = "the concepts' embeddings, vectors of the image of which a concept's probability sets the mixture only"


class CEM(ConceptModel):
    """Concept embeddings and a linear class head on all of them."""

    uses_text = False
    space: Space = "probability"
    bypass = BYPASS
    randint_on_class_tables = True  # as in its paper, whose concepts of birds are those of the class

    def __init__(
        self,
        setup: Setup,
        *,
        width: int = 16,
        randint: RandInt = 0.25,
        randint_per: Literal["image", "batch"] = "image",
        calibrate: bool = False,
        share_score: bool = True,
        pool: Pool = "cls",
    ) -> None:
        """The concept embedding model.

        Args:
            setup: What the model is built for.
            width: m, entries of an embedding.
            randint: Chance that a concept's probability is set to its label in training; 0: never; `uniform` draws a
                chance for each image.
            randint_per: Whether each `image` draws for itself, or all of a `batch` as one, as the published code.
            calibrate: Fit the probabilities' temperatures on validation after every epoch.
            share_score: One scoring function for all concepts, as the paper, or one for each.
            pool: The vector of an image: the class token, or the mean of the patches.
        """
        super().__init__()
        if width < 1:
            raise UserError(f"method.width: expected 1 or more, found {width}.")
        self.width, self.pool = width, pool
        self.bottleneck = Bottleneck(
            setup.concepts, "probability", randint, calibrate=calibrate, draw_together=randint_per == "batch"
        )
        count = len(setup.concepts)
        self.embed = nn.Linear(setup.width, count * 2 * width)
        self.score = nn.Linear(2 * width, 1 if share_score else count)
        self.register_buffer("typical", torch.zeros(count, 2, width))
        self.typical: Tensor  # embeddings of an average image, for `decide`
        self.head = nn.Linear(count * width, setup.classes)

    def embeddings(self, tokens: Tokens) -> Tensor:
        """(B, K, 2, m): of each concept, present and absent."""
        found = F.leaky_relu(self.embed(global_token(tokens, self.pool)))
        return found.view(found.shape[0], *self.typical.shape)

    def forward(self, tokens: Tokens) -> ConceptOutput:
        embeddings = self.embeddings(tokens)
        scores = self.score(embeddings.flatten(2))  # (B, K, 1), or (B, K, K) of which each concept reads its own
        scores = scores.squeeze(-1) if scores.shape[-1] == 1 else scores.diagonal(dim1=1, dim2=2)
        shares = self.bottleneck(scores)
        return ConceptOutput(
            logits=self.classify(shares, embeddings),
            concept_logits=scores if self.training else self.bottleneck.calibrated(scores),
            bottleneck=shares,
            context=embeddings.flatten(1),
        )

    def classify(self, probabilities: Tensor, embeddings: Tensor) -> Tensor:
        """Probabilities (B, K) and embeddings (B or 1, K, 2, m) → class logits (B, C)."""
        present, absent = embeddings.unbind(2)
        share = probabilities.unsqueeze(-1)
        logits: Tensor = self.head((share * present + (1 - share) * absent).flatten(1))
        return logits

    def decide(self, bottleneck: Tensor) -> Tensor:
        """What the probabilities alone say: with the embeddings of an average image."""
        return self.classify(bottleneck, self.typical.unsqueeze(0))

    def decide_within(self, bottleneck: Tensor, context: Tensor) -> Tensor:
        """An intervention: other probabilities choose between each image's own two embeddings of a concept."""
        return self.classify(bottleneck, context.view(context.shape[0], *self.typical.shape))

    def prepare(self, tokens: Iterable[Tokens], concepts: ConceptSet) -> ConceptSet:
        self.remember([self.embeddings(piece) for piece in tokens])
        return concepts

    def end_epoch(self, tokens: Tokens) -> dict[str, float]:
        self.remember([self.embeddings(tokens)])
        return {}

    @torch.no_grad()
    def remember(self, embeddings: list[Tensor]) -> None:
        """Average the embeddings of some images."""
        self.typical.copy_(torch.cat(embeddings).mean(0))
