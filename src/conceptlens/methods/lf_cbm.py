"""LF-CBM: a bottleneck without concept labels, taught by an encoder that compares images with texts.

Label-Free Concept Bottleneck Models (T. Oikarinen et al., ICLR 2023). Concepts are filtered (section 3.1), a projection
W_c of the frozen encoder's vector learns to follow the image-text similarities (3.2, 3.3), concepts it cannot follow
go, and a sparse head decides on the standardized projections (3.4).
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.methods.contract import OWN
from conceptlens.methods.fitted import concept_filters as filters
from conceptlens.methods.fitted.data import FitData, FitImages
from conceptlens.methods.fitted.linear_bottleneck import CHUNK, Lam
from conceptlens.methods.fitted.projected import ProjectedModel
from conceptlens.nn.attention.global_token import Pool
from conceptlens.nn.losses.cubed_cosine import Rows
from conceptlens.nn.setup import Setup

STRONGEST = 5  # activations whose mean says whether a concept is seen at all


class LFCBM(ProjectedModel):
    """Label-free: targets come from image-text similarities."""

    def __init__(
        self,
        setup: Setup,
        *,
        targets: str = OWN,
        pool: Pool = "cls",
        longest: int = 30,
        class_similarity: float = 0.85,
        concept_similarity: float = 0.9,
        activation: float = 0.25,
        activation_by: filters.By = "value",
        interpretability: float = 0.45,
        rate: float = 1e-3,
        steps: int = 1000,
        check_every: int = 50,
        batch: int = 50_000,
        nec: float | None = None,
        lam: Lam = 7e-4,
        alpha: float = 0.99,
    ) -> None:
        """LF-CBM.

        Args:
            setup: What the model is built for.
            targets: What compares images with the concepts' texts: `own`, the encoder itself with its text tower, or
                the name of another encoder, such as `open_clip/…`.
            pool: The vector of an image: the class token, or the mean of the patches.
            longest: Leave out concepts whose value has more characters; 0 keeps all.
            class_similarity: Leave out concepts whose text is closer to a class's name (cosine); 1 keeps all.
            concept_similarity: Leave out concepts whose text is closer to an earlier one's (cosine); 1 keeps all.
            activation: Leave out concepts whose five strongest activations are below this on average; -1 keeps all.
            activation_by: Whether `activation` is a `value` (of a cosine: its scale is the encoder's) or a `quantile`:
                the share of the concepts that goes.
            interpretability: Leave out concepts whose projection follows its targets less well than this on validation
                (cubed cosine); -1 keeps all.
            rate: Adam's rate for the projection.
            steps: At most so many steps; it stops at the first check at which validation does not gain.
            check_every: Steps between looks at validation.
            batch: Images a step; all if there are fewer.
            nec: Effective concepts per class of the sparse head; chooses λ in the place of `lam`, if given.
            lam: λ of the sparse head, or `validation`: the one that does best there.
            alpha: Share of the L1 norm in its penalty.
        """
        super().__init__(setup, width=setup.width, pool=pool, nec=nec, lam=lam, alpha=alpha)
        self.set_learning(rate=rate, steps=steps, check_every=check_every, batch=batch)
        if activation_by == "quantile" and not 0 <= activation < 1:
            raise UserError(
                f"method.activation: as a quantile it is a share of the concepts, 0 to below 1, found {activation}."
            )
        self.fit_targets = targets
        self.longest, self.class_similarity, self.concept_similarity = longest, class_similarity, concept_similarity
        self.activation, self.interpretability = activation, interpretability
        self.activation_by: filters.By = activation_by

    def fit(self, data: FitData) -> dict[str, float]:
        for concept, reason in self.unwanted(data).items():
            data.drop(concept, reason)
        kept = data.kept()
        projection = self.learn(data, _rows, kept)
        for concept, reason in filters.not_learned(projection.similarity, self.interpretability, kept).items():
            data.drop(concept, reason)
        self.vectors.zero_()
        self.offsets.zero_()
        self.vectors[kept] = projection.weight.to(self.vectors)
        self.keep(data.kept())
        return self.finish(data, projection)

    def unwanted(self, data: FitData) -> filters.Reasons:
        """Concepts that go before anything is learned, and why."""
        names = data.concepts.names
        gone = filters.too_long(data.concepts, self.longest)
        if self.class_similarity < 1:
            gone |= filters.like_a_class(data.text, data.embed([*data.classes]), data.classes, self.class_similarity)
        if self.concept_similarity < 1:
            gone |= filters.like_another(data.text, names, self.concept_similarity, gone)
        return filters.seldom_seen(strongest(data), self.activation, self.activation_by) | gone


def strongest(data: FitData) -> Tensor:
    """The mean of each concept's five strongest activations over the training images, (K,)."""
    read, n = _rows(data.train, data.text.to(data.device)), len(data.train)
    top = torch.empty(0, len(data.text), device=data.device)
    for start in range(0, n, CHUNK):
        _, activations = read(np.arange(start, min(start + CHUNK, n)))
        top = torch.cat((top, activations)).topk(min(STRONGEST, len(top) + len(activations)), dim=0).values
    return top.mean(0).cpu()


def _rows(images: FitImages, text: Tensor) -> Rows:
    """Vectors and target activations of some images."""
    seen = images.image_text
    assert seen is not None  # `fit_targets` asks for them

    def read(rows: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        vectors, image_text = (torch.from_numpy(part[rows]).to(text.device) for part in (images.vectors, seen))
        return vectors, image_text @ text.T

    return read
