"""The concept bottleneck model of Koh et al., Concept Bottleneck Models, ICML 2020 (section 3).

Two functions, g: image → concepts and f: concepts → class, trained in one of three ways:

    independent   f on true concepts, g on concept labels, apart
    sequential    g first, then f on what g says of the training images
    joint         both together, L = L_class(f(g(x)), y) + λ Σ_j L_concept(g_j(x), c_j)

`cbm`, `cbm-sequential` and `cbm-independent` are one class; the presets bring the stages. λ is `loss.concept_weight`.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from conceptlens.concepts import UNKNOWN
from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import ConceptModel, ConceptOutput
from conceptlens.nn.attention.global_token import Pool, global_token
from conceptlens.nn.heads.probabilities import concept_probabilities
from conceptlens.nn.setup import Setup


class CBM(ConceptModel):
    """A linear concept layer on the image's vector, and a class head on the concepts."""

    uses_text = False

    def __init__(
        self,
        setup: Setup,
        *,
        kind: Literal["joint", "sequential", "independent"] = "joint",
        reads: Literal["auto", "logits", "probabilities"] = "auto",
        pool: Pool = "cls",
        hidden: int = 0,
    ) -> None:
        """The concept bottleneck model.

        Args:
            setup: What the model is built for.
            kind: How concepts and class are trained; use the preset of that name, which brings the stages too.
            reads: What the class head reads; `auto` as the paper: logits if joint, probabilities otherwise.
            pool: The class token, or the mean of the patches.
            hidden: Width of a hidden layer of the class head; 0: linear, as the paper's for birds.
        """
        super().__init__()
        if hidden < 0:
            raise UserError(f"method.hidden: expected 0 (a linear head) or a width, found {hidden}.")
        if kind == "independent" and reads == "logits":
            raise UserError(
                "method.reads: an independent head learns from labels, which are 0 or 1 and no logits. "
                "Leave it `auto`, or use `probabilities`."
            )
        self.kind, self.pool, self.groups = kind, pool, setup.concepts.groups
        self.space = "logit" if reads == "logits" or (reads == "auto" and kind == "joint") else "probability"
        count = len(setup.concepts)
        self.concepts = nn.Linear(setup.width, count)
        self.head = (
            nn.Sequential(nn.Linear(count, hidden), nn.ReLU(), nn.Linear(hidden, setup.classes))
            if hidden
            else nn.Linear(count, setup.classes)
        )

    def forward(self, tokens: Tokens) -> ConceptOutput:
        scores = self.concepts(global_token(tokens, self.pool))
        bottleneck = scores if self.space == "logit" else concept_probabilities(scores, self.groups)
        # Unless trained jointly, the class has no say in what the concepts become.
        read = bottleneck if self.kind == "joint" else bottleneck.detach()
        return ConceptOutput(logits=self.decide(read), concept_logits=scores, bottleneck=bottleneck)

    def teach(self, output: ConceptOutput, labels: Tensor) -> ConceptOutput:
        """An independent head learns from true concepts; where nobody knows them, from what the model says."""
        if self.kind == "independent":
            said = output.bottleneck.detach()
            output.logits = self.decide(torch.where(labels == UNKNOWN, said, labels.to(said.dtype)))
        return output
