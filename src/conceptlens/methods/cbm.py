"""The concept bottleneck model of Koh et al., Concept Bottleneck Models, ICML 2020 (section 3).

Two functions, g: image → concepts and f: concepts → class, trained in one of three ways:

    independent   f on true concepts, g on concept labels, apart            class_gradient 0, randint 1
    sequential    g first, then f on what g says of the training images     class_gradient 0
    joint         both together, L = L_class(f(g(x)), y) + λ Σ_j L_concept(g_j(x), c_j)

All presets are one class; they bring the stages. λ is `loss.concept_weight`.
"""

from torch import nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import ConceptModel, ConceptOutput
from conceptlens.nn.attention.global_token import Pool, global_token
from conceptlens.nn.heads.bottleneck import Bottleneck, RandInt, Reads
from conceptlens.nn.setup import Setup


class CBM(ConceptModel):
    """A linear concept layer on the image's vector, and a class head on the concepts."""

    uses_text = False

    def __init__(
        self,
        setup: Setup,
        *,
        space: Reads = "logit",
        randint: RandInt = 0.0,
        class_gradient: float = 1.0,
        calibrate: bool = False,
        head_rate: float = 1.0,
        pool: Pool = "cls",
        hidden: int = 0,
    ) -> None:
        """The concept bottleneck model.

        Args:
            setup: What the model is built for.
            space: What the class head reads: logits, probabilities within each group, or their logarithm.
            randint: Chance that a group is set to its labels in training, so that the head learns to take corrections;
                `uniform` draws a chance for each image.
            class_gradient: How much of the class loss reaches the concepts: 1 joint, 0 sequential training.
            calibrate: Fit the probabilities' temperatures on validation after every epoch.
            head_rate: The class head's learning rate as a multiple of the training's.
            pool: The class token, or the mean of the patches.
            hidden: Width of a hidden layer of the class head; 0: linear, as the paper's for birds.
        """
        super().__init__()
        if hidden < 0:
            raise UserError(f"method.hidden: expected 0 (a linear head) or a width, found {hidden}.")
        self.pool = pool
        self.space, self.bottleneck = space, Bottleneck(setup.concepts, space, randint, class_gradient, calibrate)
        count = len(setup.concepts)
        self.concepts = nn.Linear(setup.width, count)
        self.head = (
            nn.Sequential(nn.Linear(count, hidden), nn.ReLU(), nn.Linear(hidden, setup.classes))
            if hidden
            else nn.Linear(count, setup.classes)
        )
        self.set_head_rate(head_rate)

    def forward(self, tokens: Tokens) -> ConceptOutput:
        return self.through_bottleneck(self.concepts(global_token(tokens, self.pool)))
