"""DCBM: concepts are clusters of image segments, named by text or left visual.

DCBM: Data-Efficient Visual Concept Bottleneck Models (K. Prasse, P. Knab, S. Marton, C. Bartelt, M. Keuper; ICML 2025).
Segments of some training images (a segmentation or detection foundation model) are cut out, embedded by the frozen
encoder and clustered by k-means; an image's score for a concept is how similar it is to the cluster's center, and a
sparse linear head decides.
"""

from typing import Literal

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from torch import Tensor
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import IMAGE_VECTOR, Space, Supervision
from conceptlens.methods.fitted.data import FitData
from conceptlens.methods.fitted.linear_bottleneck import FittedModel, Lam
from conceptlens.nn.setup import Setup

Naming = Literal["text", "none"]


class DCBM(FittedModel):
    """Clusters of segments as concepts."""

    supervision: Supervision = "text"
    uses_image_vector = True
    space: Space = "cosine"
    fit_crops = True

    def __init__(
        self,
        setup: Setup,
        *,
        naming: Naming = "text",
        clusters: int | None = None,
        images: int = 50,
        nec: float | None = None,
        lam: Lam = "validation",
        alpha: float = 0.99,
    ) -> None:
        """DCBM.

        Args:
            setup: What the model is built for.
            naming: `text` gives each cluster the concept whose text is nearest, each text once; `none` leaves them
                visual: the concepts of the file are places for them, in order.
            clusters: How many; for `text` as many as concepts by default, for `none` always.
            images: Training images of each class whose segments are clustered; 0 for all.
            nec: Effective concepts per class of the sparse head; chooses λ in the place of `lam`, if given.
            lam: λ of the sparse head, or `validation`: the one that does best there.
            alpha: Share of the L1 norm in its penalty.
        """
        width = setup.text.shape[1]
        super().__init__(setup, width=width, pool="cls", nec=nec, lam=lam, alpha=alpha)
        if clusters is not None and (clusters < 1 or naming == "none"):
            raise UserError(f"method.clusters: expected 1 or more, and nothing where naming is none, found {clusters}.")
        if images < 0:
            raise UserError(f"method.images: expected 0 (all) or more, found {images}.")
        self.naming, self.clusters, self.fit_crop_images = naming, clusters, images
        self.supervision = "text" if naming == "text" else "class-labels"

    def summarize(self, tokens: Tokens) -> Tensor:
        return F.normalize(tokens.aux[IMAGE_VECTOR], dim=-1)

    def fit(self, data: FitData) -> dict[str, float]:
        crops = data.crops
        if crops is None:
            raise UserError("method.name: dcbm clusters segments, but there are none.")
        vectors = crops.vectors
        count = (self.clusters or len(data.concepts)) if self.naming == "text" else len(data.concepts)
        if len(vectors) < count:
            raise UserError(
                f"method.clusters: {len(vectors)} segments are too few for {count} clusters. Take more images "
                "(method.images), more segments, or fewer concepts."
            )
        data.note(f"{len(vectors)} segments, {count} clusters")
        means = KMeans(count, n_init=3, random_state=data.seed).fit(vectors)
        centers = F.normalize(torch.from_numpy(means.cluster_centers_.astype(np.float32)), dim=-1)
        numbers = {"segments": float(len(vectors)), "clusters": float(count)}
        if self.naming == "text":
            texts = F.normalize(self.text.cpu().float(), dim=-1)
            cosines = (centers @ texts.T).numpy()
            cluster, concept = linear_sum_assignment(-cosines)
            for place in sorted(set(range(len(data.concepts))) - set(concept.tolist())):
                data.drop(place, f"none of the {count} clusters of segments was nearest to it")
            self.vectors[torch.from_numpy(concept)] = centers[torch.from_numpy(cluster)].to(self.vectors)
            numbers["name_cosine"] = float(cosines[cluster, concept].mean())
        else:
            order = np.argsort(-np.bincount(means.labels_, minlength=count), kind="stable")  # the largest cluster first
            self.vectors.copy_(centers[torch.from_numpy(order)])
        self.offsets.zero_()
        self.keep(data.kept())
        return {**numbers, "concepts": float(len(self.vectors)), **self.fit_head(data, standardize=True)}
