"""LaBo: of all that is said about the classes, the concepts that tell them apart, and how much each speaks for whom.

Y. Yang, A. Panagopoulou, S. Zhou, D. Jin, C. Callison-Burch, M. Yatskar: Language in a Bottle: Language Model Guided
Concept Bottlenecks for Interpretable Image Classification, CVPR 2023. Of each class's candidates k are selected
(section 3.2, `nn/selection/submodular.py`); an image's score is its dot product with a concept's text, and

    logits = s · (x · E_Cᵀ) · σ(W)ᵀ,    W_yc = 1 at the start if class y selected c, else 0

(section 3.3): the knowledge of which class a concept was said of is where learning begins. Only W learns.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import IMAGE_VECTOR, ConceptModel, ConceptOutput, Space, Supervision, in_text_space
from conceptlens.methods.fitted import concept_proposals as proposals
from conceptlens.methods.fitted.concept_proposals import Candidates, Proposals
from conceptlens.methods.fitted.data import FitData, FitImages, Floats
from conceptlens.nn.heads.association import Over, association_head, associations_of
from conceptlens.nn.selection import submodular
from conceptlens.nn.selection.submodular import Likelihood
from conceptlens.nn.setup import Setup

CHUNK = 65_536  # images whose vectors are summed at a time
Discriminability = Literal["entropy", "mutual-information"]


class LaBo(ConceptModel):
    """Cosines of image and text, and a class-concept association."""

    supervision: Supervision = "text"
    uses_image_vector = True
    space: Space = "cosine"

    def __init__(
        self,
        setup: Setup,
        *,
        candidates: Candidates = "auto",
        per_class: int = 50,
        discriminability: Discriminability = "entropy",
        likelihood: Likelihood = "ratio",
        alpha: float = 1.0,
        beta: float = 1.0,
        softmax: Over = "classes",
        prior: float = 1.0,
        association_rate: float = 10.0,
        logit_scale: float = 100.0,
    ) -> None:
        """LaBo.

        Args:
            setup: What the model is built for.
            candidates: What each class proposes: the `groups` called like the classes, what the concept file's `table`
                says of it, the values that its training `images` or the `text` of its name are more like than other
                classes are, or `all` concepts. `auto`: the first of groups, table and images that the file allows.
            per_class: How many of its candidates are selected for a class.
            discriminability: Negative `entropy` of the classes given a concept, as the paper, or its share of their
                `mutual-information`, as the published code.
            likelihood: A class's part of a concept: a `ratio` of similarities, as the paper, which must be above 0; or
                a `softmax` of them, times logit_scale.
            alpha: Weight of the discriminability in the selection.
            beta: Weight of the coverage.
            softmax: Of the associations: over the `classes`, as the paper's formula, or over the `concepts`, as the
                published code.
            prior: Association of a class with a concept it selected, at the start; 0 starts without that knowledge.
            association_rate: W's learning rate as a multiple of the training's: from 0 and 1 to a softmax that is sure
                is a longer way than a linear head's.
            logit_scale: s; 100 is CLIP's.
        """
        super().__init__()
        for option, value in (("alpha", alpha), ("beta", beta), ("association_rate", association_rate)):
            if value < 0:
                raise UserError(f"method.{option}: expected 0 or more, found {value}.")
        for option, value in (("per_class", per_class), ("logit_scale", logit_scale)):
            if not value > 0:
                raise UserError(f"method.{option}: expected a number above 0, found {value}.")
        self.candidates = proposals.resolve(candidates, setup.concepts, setup.class_names)
        if self.candidates in ("groups", "table"):
            self.supervision = "class-table"
        self.per_class, self.alpha, self.beta, self.prior = per_class, alpha, beta, prior
        self.discriminability = discriminability
        self.likelihood: Likelihood = likelihood
        self.scale = logit_scale
        self.reading: dict[str, Any] = {"over": softmax, "scale": logit_scale, "rate": association_rate}
        self.register_buffer("text", setup.text.clone())
        self.text: Tensor
        blank = torch.zeros(setup.classes, len(setup.concepts))  # until `fit` knows what was selected
        self.head = association_head(blank, **self.reading)

    def summarize(self, tokens: Tokens) -> Tensor:
        return in_text_space(tokens.aux[IMAGE_VECTOR], self.text.shape[1])

    def forward(self, tokens: Tokens) -> ConceptOutput:
        cosines = self.summarize(tokens).to(self.text.dtype) @ self.text.T
        return ConceptOutput(logits=self.decide(cosines), concept_logits=self.scale * cosines, bottleneck=cosines)

    def keep(self, columns: Sequence[int]) -> None:
        chosen = list(columns)
        self.text = self.text[chosen]
        kept = associations_of(self.head).detach()[:, chosen]
        self.head = association_head(kept, **self.reading).to(kept)

    def fit(self, data: FitData) -> dict[str, float]:
        """Select concepts, and begin with the association of each with the classes that selected it."""
        text = self.text.detach().float().cpu().numpy()
        similarity = (class_vectors(data.train, len(data.classes)) @ text.T).astype(np.float64)
        proposed = self.proposed(data, similarity, text)
        selected = self.select(proposed, similarity, text)
        for concept in np.flatnonzero(~selected.any(0)):
            by = [name for name, said in zip(data.classes, proposed[:, concept], strict=True) if said]
            data.drop(
                int(concept), f"not among the {self.per_class} selected of {by[0]}" if by else "no class proposes it"
            )
        with torch.no_grad():
            associations_of(self.head).copy_(self.prior * torch.from_numpy(selected).to(self.text))
        self.keep(data.kept())
        return {
            "concepts": float(len(self.text)),
            "concepts_per_class": float(selected.sum(1).mean()),
            "concepts_proposed": float(proposed.any(0).sum()),
        }

    def proposed(self, data: FitData, similarity: submodular.Floats, text: Floats) -> Proposals:
        """Which class proposes which concepts, (C, K)."""
        if self.candidates == "groups":
            return proposals.proposed_by_groups(data.concepts, data.classes)
        if self.candidates == "table":
            return proposals.proposed_by_table(data.concepts, data.classes)
        if self.candidates == "all":
            return np.ones(similarity.shape, bool)
        if self.candidates == "text":
            similarity = (data.embed(list(data.classes)).float().cpu().numpy() @ text.T).astype(np.float64)
        return proposals.proposed_by_likeness(data.concepts, similarity)

    def select(self, proposed: Proposals, similarity: submodular.Floats, text: Floats) -> Proposals:
        """Of each class's candidates (C, K), those that maximize F."""
        shares = submodular.likelihood(similarity, self.likelihood, self.scale)
        measure = submodular.negative_entropy if self.discriminability == "entropy" else submodular.mutual_information
        value = measure(shares)
        selected = np.zeros_like(proposed)
        for row, candidates in zip(selected, proposed, strict=True):
            at = np.flatnonzero(candidates)
            likeness = (text[at] @ text[at].T).astype(np.float64)
            picks = submodular.greedy(value[at], likeness, self.per_class, alpha=self.alpha, beta=self.beta)
            row[at[picks]] = True
        return selected


def class_vectors(images: FitImages, classes: int) -> Floats:
    """The mean vector of each class's images, (C, D); of a class without any, that of all images."""
    sums = np.zeros((classes + 1, images.vectors.shape[1]))
    counts = np.zeros(classes + 1)
    for start in range(0, len(images), CHUNK):
        vectors, labels = images.vectors[start : start + CHUNK], images.labels[start : start + CHUNK]
        members = labels[:, None] == np.arange(classes) if labels.ndim == 1 else labels == 1
        members = np.column_stack((members, np.ones(len(vectors), bool)))
        sums += members.T.astype(np.float32) @ np.asarray(vectors, np.float32)
        counts += members.sum(0)
    means = sums / np.maximum(counts, 1)[:, None]
    return np.where(counts[:-1, None] > 0, means[:-1], means[-1]).astype(np.float32)
