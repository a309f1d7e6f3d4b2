"""Coop-CBM: a concept bottleneck whose features are also trained to tell the class directly, and to keep labels apart.

I. Sheth, S. E. Kahou: Auxiliary Losses for Learning Generalizable Concept-based Models, NeurIPS 2023. On the features q
of an image there are a concept learner f, an auxiliary label learner h and, on the concepts alone, a task learner g:

    L = L_class(g(f(q)), y) + γ L_class(h(q), y) + λ_c L_concept(f(q), c) + w L_COL(q, c)

h is used in training only: it decides nothing. L_COL: `bottleneck.orthogonal_loss`. `coop-cbm-released` is its
published code's choice of labels for L_COL: the class's, and each concept's at a thousandth of the weight.
"""

from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import ConceptModel, ConceptOutput
from conceptlens.nn.attention.global_token import Pool, global_token
from conceptlens.nn.heads.bottleneck import Bottleneck, RandInt, Reads
from conceptlens.nn.losses.orthogonal import class_members, concept_members, orthogonal_loss
from conceptlens.nn.setup import Setup


class CoopCBM(ConceptModel):
    """Concepts and an auxiliary class from one vector; the class from the concepts."""

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
        auxiliary_weight: float = 1.0,
        orthogonal_concepts: float = 1.0,
        orthogonal_classes: float = 0.0,
        orthogonal_sum: bool = False,
        apart: float = 0.5,
    ) -> None:
        """Coop-CBM.

        Args:
            setup: What the model is built for.
            space: What the class head reads: logits, probabilities within each group, or their logarithm.
            randint: Chance that a group is set to its labels in training, so that the head learns to take corrections;
                `uniform` draws a chance for each image.
            class_gradient: How much of the class loss reaches the concepts: 1 joint, 0 sequential training.
            calibrate: Fit the probabilities' temperatures on validation after every epoch.
            head_rate: The class head's learning rate as a multiple of the training's.
            pool: The class token, or the mean of the patches.
            hidden: Width of a learned layer (with ReLU) whose output are the features; 0: the token itself, as the
                paper. Behind a frozen encoder the orthogonal loss has nothing to move without it.
            auxiliary_weight: Weight of the auxiliary head's class loss, relative to `training.loss.class_weight`.
            orthogonal_concepts: Weight of the orthogonal loss by concept labels.
            orthogonal_classes: Weight of the orthogonal loss by class labels.
            orthogonal_sum: Add the concepts' orthogonal losses up, as the published code, or average them.
            apart: λ of the orthogonal loss: what pairs with different labels weigh.
        """
        super().__init__()
        weights = {
            "hidden": hidden,
            "auxiliary_weight": auxiliary_weight,
            "orthogonal_concepts": orthogonal_concepts,
            "orthogonal_classes": orthogonal_classes,
            "apart": apart,
        }
        for option, value in weights.items():
            if value < 0:
                raise UserError(f"method.{option}: expected 0 or more, found {value}.")
        self.space, self.bottleneck = space, Bottleneck(setup.concepts, space, randint, class_gradient, calibrate)
        self.pool, self.classes = pool, setup.classes
        self.auxiliary_weight, self.apart, self.orthogonal_sum = auxiliary_weight, apart, orthogonal_sum
        self.orthogonal_concepts, self.orthogonal_classes = orthogonal_concepts, orthogonal_classes
        count, width = len(setup.concepts), hidden or setup.width
        self.features = nn.Sequential(nn.Linear(setup.width, hidden), nn.ReLU()) if hidden else nn.Identity()
        self.concepts = nn.Linear(width, count)
        self.head = nn.Linear(count, setup.classes)
        self.set_head_rate(head_rate)
        self.auxiliary = nn.Linear(width, setup.classes) if auxiliary_weight else None

    def forward(self, tokens: Tokens) -> ConceptOutput:
        features = self.features(global_token(tokens, self.pool))
        return self.through_bottleneck(
            self.concepts(features),
            features=features,
            auxiliary=None if self.auxiliary is None else self.auxiliary(features),
            auxiliary_weight=self.auxiliary_weight,
        )

    def teach(self, output: ConceptOutput, labels: Tensor) -> ConceptOutput:
        """RandInt, and the orthogonal loss by concept labels."""
        output = super().teach(output, labels)
        if self.orthogonal_concepts and output.features is not None:
            each = orthogonal_loss(output.features, concept_members(labels), self.apart)
            loss = self.orthogonal_concepts * (each.sum() if self.orthogonal_sum else each.mean())
            output.losses["orthogonal_concepts"] = loss.expand(len(labels))
        return output

    def teach_classes(self, output: ConceptOutput, labels: Tensor) -> ConceptOutput:
        """The orthogonal loss by class labels."""
        if self.orthogonal_classes and output.features is not None:
            each = orthogonal_loss(output.features, class_members(labels, self.classes), self.apart)
            output.losses["orthogonal_classes"] = (self.orthogonal_classes * each.mean()).expand(len(labels))
        return output
