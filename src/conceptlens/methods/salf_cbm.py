"""SALF-CBM: concept maps without concept labels, taught by an encoder that compares regions with texts.

Show and Tell: Visually Explainable Deep Neural Nets via Spatially-Aware Concept Bottleneck Models (I. Benou, T.
Riklin-Raviv, CVPR 2025). With z_l the frozen encoder's patches and x^h the image in which region h is marked:

    P_hk = ⟨image(x^h), text_k⟩                              what the image-text encoder says of region h
    q_lk = ⟨w_k, z_l⟩                                        concept maps: a 1 × 1 convolution of the features
    W    = argmax mean_k cos(q̄_k³, P̄_k³)                     over images and regions, q brought to their grid
    s_k  = (mean_l q_lk − μ_k) / σ_k                         pooled, standardized over the training images
    logits = V s + b                                         V sparse

s_k is a sum over patches: (q_lk − μ_k) / (L σ_k) is what patch l adds to it.
"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.encoders.contract import Tokens
from conceptlens.methods.contract import OWN, ConceptOutput
from conceptlens.methods.fitted.data import FitData, FitImages
from conceptlens.methods.fitted.linear_bottleneck import Lam
from conceptlens.methods.fitted.projected import ProjectedModel
from conceptlens.methods.fitted.region_prompts import Prompt, RegionPrompts
from conceptlens.nn.losses.cubed_cosine import Rows
from conceptlens.nn.setup import Setup


class SALFCBM(ProjectedModel):
    """Spatially aware and label-free: targets come from similarities of regions and texts."""

    has_evidence = True

    def __init__(
        self,
        setup: Setup,
        *,
        targets: str = OWN,
        prompt: Prompt = "circle",
        grid: int = 7,
        radius: float = 1 / 7,
        rate: float = 1e-3,
        steps: int = 1000,
        check_every: int = 50,
        batch: int = 1000,
        nec: float | None = None,
        lam: Lam = 7e-4,
        alpha: float = 0.99,
    ) -> None:
        """SALF-CBM.

        Args:
            setup: What the model is built for.
            targets: What compares regions with the concepts' texts: `own`, the encoder itself with its text tower, or
                the name of another encoder, such as `open_clip/…`.
            prompt: How it is pointed at a region: a red `circle` around it, or the region alone, a `crop`.
            grid: Regions along each side of the image.
            radius: Of a region, in sides of the image.
            rate: Adam's rate for the concept layer.
            steps: At most so many steps; it stops at the first check at which validation does not gain.
            check_every: Steps between looks at validation.
            batch: Images a step; all if there are fewer.
            nec: Effective concepts per class of the sparse head; chooses λ in the place of `lam`, if given.
            lam: λ of the sparse head, or `validation`: the one that does best there.
            alpha: Share of the L1 norm in its penalty.
        """
        super().__init__(setup, width=setup.width, pool="mean", nec=nec, lam=lam, alpha=alpha)
        self.set_learning(rate=rate, steps=steps, check_every=check_every, batch=batch)
        if grid < 1:
            raise UserError(f"method.grid: expected at least one region along each side, found {grid}.")
        if not 0 < radius <= 1:
            raise UserError(
                f"method.radius: expected a share of the image's side, above 0 and up to 1, found {radius}."
            )
        self.fit_targets = targets
        self.side = grid
        self.fit_regions = RegionPrompts(prompt, grid, radius)

    def summarize(self, tokens: Tokens) -> Tensor:
        """The features of each region, and then their mean over all patches, (B, (G + 1) · D).

        The concept layer is linear in a patch, so bringing its maps to the regions' grid, as the paper does, and
        bringing the features there are the same.
        """
        height, width = tokens.grid
        features = tokens.patches.mT.reshape(
            tokens.patches.shape[0], tokens.patches.shape[2], height, width
        )  # (B, D, h, w)
        regions = F.interpolate(features.float(), (self.side, self.side), mode="bilinear", align_corners=False)
        return torch.cat((regions.flatten(2).mT.flatten(1), tokens.patches.float().mean(1)), 1)

    def scores(self, vectors: Tensor) -> Tensor:
        """From the mean over all patches, which `summarize` puts last."""
        return super().scores(vectors[:, -self.vectors.shape[1] :])

    def forward(self, tokens: Tokens) -> ConceptOutput:
        maps = F.linear(tokens.patches.to(self.vectors.dtype), self.vectors, self.offsets)  # (B, L, K), standardized
        evidence = maps.mT / maps.shape[1]
        scores = evidence.sum(-1)
        return ConceptOutput(
            logits=self.decide(scores),
            concept_logits=scores,
            bottleneck=scores,
            evidence=evidence,
            unplaced=torch.zeros_like(scores),
        )

    def fit(self, data: FitData) -> dict[str, float]:
        projection = self.learn(data, _regions, range(len(data.text)))
        self.vectors.copy_(projection.weight.to(self.vectors))
        self.offsets.zero_()
        return self.finish(data, projection)


def _regions(images: FitImages, text: Tensor) -> Rows:
    """Features (n · G, D) and target similarities (n · G, K) of the regions of some images."""
    seen = images.region_text
    assert seen is not None  # `fit_regions` asks for them

    def read(rows: npt.NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        count = seen.shape[1]
        features = torch.from_numpy(images.vectors[rows]).to(text.device).reshape(len(rows), count + 1, -1)[:, :-1]
        return features.flatten(0, 1), torch.from_numpy(seen[rows]).to(text.device).flatten(0, 1) @ text.T

    return read
