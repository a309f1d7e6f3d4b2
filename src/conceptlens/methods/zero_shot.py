"""Zero-shot: images are compared with texts, and nothing is trained.

Concepts: s ⟨image, text of the concept⟩. Classes, `through: prompts`: s ⟨image, mean of the class's prompts⟩, with an
ensemble of templates (A. Radford et al., Learning Transferable Visual Models From Natural Language Supervision, ICML
2021); the concepts then have no part in the class, which is declared. `through: concepts`: the mean score of what the
concept file's table says of the class (S. Menon, C. Vondrick, Visual Classification via Description from Large Language
Models, ICLR 2023), a real bottleneck whose head is that table.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import IMAGE_VECTOR, ConceptModel, ConceptOutput, Supervision, in_text_space
from conceptlens.nn.setup import Setup

TEMPLATES = ("{class}", "a photo of a {class}", "an image of a {class}", "a close-up of a {class}")


class ZeroShot(ConceptModel):
    """Cosines of the encoder's image vector with texts."""

    supervision: Supervision = "text"
    uses_image_vector = True
    fits_images = False

    def __init__(
        self,
        setup: Setup,
        *,
        through: Literal["prompts", "concepts"] = "prompts",
        templates: list[str] | None = None,
        class_texts: list[str] | None = None,
        logit_scale: float = 100.0,
    ) -> None:
        """Zero-shot classification.

        Args:
            setup: What the model is built for.
            through: Classes by prompts of their own, or by what the concept file's class table says of them.
            templates: Prompts with `{class}` in them; the mean of their vectors stands for a class. Four plain ones if
                not given.
            class_texts: What stands for `{class}`, one text a class in their order; the classes' names if not given.
            logit_scale: Scale of the cosines; 100 is CLIP's.
        """
        super().__init__()
        if logit_scale <= 0:
            raise UserError(f"method.logit_scale: expected a number above 0, found {logit_scale}.")
        self.scale, self.through = logit_scale, through
        self.register_buffer("text", setup.text.clone())
        self.text: Tensor
        if through == "concepts":
            self.supervision = "class-table"
            self.head = nn.Linear(len(setup.concepts), setup.classes).requires_grad_(False)
            with torch.no_grad():
                self.head.weight.copy_(class_table(setup.concepts, setup.class_names))
                self.head.bias.zero_()
            return
        self.bypass = "the likeness of the image to prompts of the classes themselves"
        names = list(class_texts or setup.class_names)
        if len(names) != setup.classes:
            raise UserError(f"method.class_texts: expected {setup.classes} texts, one per class, found {len(names)}.")
        vectors = [setup.embed([fill(template, name) for name in names]) for template in templates or TEMPLATES]
        self.register_buffer("class_text", F.normalize(torch.stack(vectors).mean(0), dim=-1))
        self.class_text: Tensor

    def forward(self, tokens: Tokens) -> ConceptOutput:
        image = in_text_space(tokens.aux[IMAGE_VECTOR], self.text.shape[1]).to(self.text.dtype)
        scores = self.scale * image @ self.text.T
        logits = self.decide(scores) if self.through == "concepts" else self.scale * image @ self.class_text.T
        return ConceptOutput(logits=logits, concept_logits=scores, bottleneck=scores)

    def decide(self, bottleneck: Tensor) -> Tensor:
        """By the class table; with prompts, concepts decide nothing."""
        if self.through == "concepts":
            logits: Tensor = self.head(bottleneck)
            return logits
        return bottleneck.new_zeros(len(bottleneck), len(self.class_text))


def fill(template: str, name: str) -> str:
    """A class's prompt."""
    if "{class}" not in template:
        raise UserError(
            f"method.templates: expected {{class}} in each, where the class's name goes; found {template!r}."
        )
    return template.replace("{class}", name)


def class_table(concepts: ConceptSet, classes: Sequence[str]) -> Tensor:
    """(C, K): 1 / n for each of the n concepts that the table says of a class, 0 for all others."""
    table = torch.stack([torch.from_numpy(concepts.labels_of_class(name) == 1) for name in classes]).float()
    if silent := [name for name, row in zip(classes, table, strict=True) if not row.any()]:
        raise UserError(
            f"method.through: the concept file {concepts.name!r} says nothing of {silent[0]!r} in `by_class`, so its "
            "concepts cannot decide without training. Add the class there, or use `through: prompts`."
        )
    return table / table.sum(1, keepdim=True)
