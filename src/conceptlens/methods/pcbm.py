"""PCBM and PCBM-h: a bottleneck laid behind a frozen encoder, after the fact.

Post-hoc Concept Bottleneck Models (Yuksekgonul, Wang, Zou; ICLR 2023). Section 2.1: concept vectors c_i, from SVMs or
from texts; an image's score is where it lies along c_i. Section 2.2: a sparse elastic-net head. Section 2.3, PCBM-h: a
linear map of the vector itself is added, trained afterwards with everything else frozen: the concepts are bypassed.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import IMAGE_VECTOR, ConceptOutput, Space, Supervision, in_text_space
from conceptlens.methods.fitted.concept_vectors import concept_vector
from conceptlens.methods.fitted.data import FitData
from conceptlens.methods.fitted.linear_bottleneck import FittedModel, Lam
from conceptlens.nn.attention.global_token import Pool
from conceptlens.nn.setup import Setup

Score = Literal["distance", "projection"]
BYPASS = "a linear map of the image's vector (PCBM-h's residual)"


class PostHoc(FittedModel):
    """What both kinds of concept vectors share: PCBM-h's residual, zero until a stage trains it."""

    residual: nn.Linear | None

    def set_residual(self, wanted: bool, width: int, classes: int) -> None:
        self.residual = nn.Linear(width, classes) if wanted else None
        if self.residual is not None:
            nn.init.zeros_(self.residual.weight)
            nn.init.zeros_(self.residual.bias)
            self.bypass = BYPASS

    def forward(self, tokens: Tokens) -> ConceptOutput:
        output = super().forward(tokens)
        if self.residual is not None:
            output.logits = output.logits + self.residual(self.summarize(tokens).to(self.vectors.dtype))
        return output


class PCBM(PostHoc):
    """Concept vectors from linear SVMs on concept labels."""

    supervision: Supervision = "image-labels"
    uses_text = False
    concepts_see_class = False

    def __init__(
        self,
        setup: Setup,
        *,
        pool: Pool = "cls",
        score: Score = "distance",
        c: list[float] = [0.001, 0.01, 0.1, 1.0],  # noqa: B006
        samples: int = 500,
        residual: bool = False,
        nec: float | None = None,
        lam: Lam = "validation",
        alpha: float = 0.99,
    ) -> None:
        """PCBM.

        Args:
            setup: What the model is built for.
            pool: The vector of an image: the class token, or the mean of the patches.
            score: `distance` from the SVM's plane, (c·x + b)/‖c‖, as the published code; or `projection`, c·x/‖c‖², as
                the paper's formula.
            c: Values of the SVM's C; validation chooses one for each concept.
            samples: At most so many images with a concept, and so many without, for its SVM; 0: all.
            residual: PCBM-h: add a linear map of the image's vector, for a later stage to train.
            nec: Effective concepts per class of the sparse head; chooses λ in the place of `lam`, if given.
            lam: λ of the sparse head, or `validation`: the one that does best there.
            alpha: Share of the L1 norm in its penalty.
        """
        super().__init__(setup, width=setup.width, pool=pool, nec=nec, lam=lam, alpha=alpha)
        if not c or min(c) <= 0:
            raise UserError(f"method.c: expected one or more numbers above 0, found {c}.")
        if samples < 0:
            raise UserError(f"method.samples: expected 0 (all) or more, found {samples}.")
        self.score, self.c, self.samples = score, list(c), samples
        self.set_residual(residual, setup.width, setup.classes)

    def fit(self, data: FitData) -> dict[str, float]:
        aucs = []
        for concept in range(len(data.concepts)):
            found = concept_vector(concept, data.train, data.val, c=self.c, samples=self.samples, seed=data.seed)
            if isinstance(found, str):
                data.drop(concept, found)
                continue
            vector = torch.from_numpy(found.vector)
            norm = vector.norm().clamp_min(1e-12)
            distance = self.score == "distance"
            self.vectors[concept] = vector / (norm if distance else norm**2)
            self.offsets[concept] = found.intercept / norm if distance else 0.0
            aucs += [] if found.auc is None else [found.auc]
        self.keep(data.kept())
        told = {"svm_auc": sum(aucs) / len(aucs)} if aucs else {}
        return {"concepts": float(len(self.vectors)), **told, **self.fit_head(data)}


class PCBMText(PostHoc):
    """Concept vectors from texts, in the space that the encoder shares with a text tower."""

    supervision: Supervision = "text"
    uses_image_vector = True
    space: Space = "cosine"

    def __init__(
        self,
        setup: Setup,
        *,
        residual: bool = False,
        nec: float | None = None,
        lam: Lam = "validation",
        alpha: float = 0.99,
    ) -> None:
        """PCBM with texts.

        Args:
            setup: What the model is built for.
            residual: PCBM-h: add a linear map of the image's vector, for a later stage to train.
            nec: Effective concepts per class of the sparse head; chooses λ in the place of `lam`, if given.
            lam: λ of the sparse head, or `validation`: the one that does best there.
            alpha: Share of the L1 norm in its penalty.
        """
        width = setup.text.shape[1]
        super().__init__(setup, width=width, pool="cls", nec=nec, lam=lam, alpha=alpha)
        norms = setup.text.norm(dim=-1, keepdim=True).clamp_min(1e-12)
        self.vectors.copy_(setup.text / norms)
        self.set_residual(residual, width, setup.classes)

    def summarize(self, tokens: Tokens) -> Tensor:
        return in_text_space(tokens.aux[IMAGE_VECTOR], self.vectors.shape[1])

    def fit(self, data: FitData) -> dict[str, float]:
        return self.fit_head(data)
