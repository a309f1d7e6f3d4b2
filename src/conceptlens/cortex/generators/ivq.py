"""The codebook of an IVQ-CBM run behind the contract: each patch of an image is its nearest code (IVQ-CBM, Eq. 3).

It neither decodes nor generates: samples are images, and a token is shown by the patches that chose it.
"""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.core.errors import UserError
from conceptlens.cortex.generators.contract import VQModel
from conceptlens.runs.opened import OpenedRun


class IVQCodebook(VQModel):
    """Encoder and codebook of a finished run."""

    decodes = False

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        run = OpenedRun.open(path, device="cpu")
        self.pipeline, self.card, self.vocabulary = run.pipeline, run.card, run.concepts
        codes = getattr(self.pipeline.regularizer, "codebook", None)
        if not isinstance(codes, Tensor):
            raise UserError(
                f"{run.path}: this run has no codebook. Train one with `regularizer: {{name: ivq}}` or another "
                "quantizer (see docs/regularizers.md)."
            )
        self.name, self.image_size = str(run.path), self.card.image_size
        self.grid = self.pipeline.encoder.grid(self.image_size, self.image_size)
        self.classes = tuple(self.card.classes)
        self.eval().requires_grad_(False)

    @property
    def codebook(self) -> Tensor:
        codes: Tensor = self.pipeline.regularizer.codebook  # type: ignore[assignment]
        return codes

    @torch.no_grad()
    def vectors(self, images: Tensor) -> Tensor:
        """Patch tokens (B, D, h, w) before they are quantized."""
        side = (self.image_size, self.image_size)
        if tuple(images.shape[-2:]) != side:
            images = F.interpolate(images, side, mode="bicubic", antialias=True).clamp(0, 1)
        tokens = self.pipeline.encoder(images.to(self.codebook))
        return tokens.patches.transpose(1, 2).unflatten(2, tokens.grid).float()  # type: ignore[no-any-return]

    def encode(self, images: Tensor) -> Tensor:
        return self.nearest_codes(self.vectors(images))
