"""A concept layer that learns to follow an image-text encoder: what LF-CBM and SALF-CBM share.

The outputs of a linear map follow the similarities of images, or of regions, and texts (`nn.losses.cubed_cosine`). Then
they are standardized over the training images, and a sparse head decides on them.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.methods.contract import Supervision
from conceptlens.methods.fitted.data import FitData, FitImages
from conceptlens.methods.fitted.linear_bottleneck import FittedModel
from conceptlens.nn.losses.cubed_cosine import Projection, Rows, fit_projection


class ProjectedModel(FittedModel):
    """Without concept labels: targets come from an image-text encoder."""

    supervision: Supervision = "text"

    def set_learning(self, *, rate: float, steps: int, check_every: int, batch: int) -> None:
        """Check and keep the settings of Adam; see `fit_projection`."""
        for option, value in (("rate", rate), ("steps", steps), ("check_every", check_every), ("batch", batch)):
            if not value > 0:
                raise UserError(f"method.{option}: expected a number above 0, found {value}.")
        self.learning = {"rate": rate, "steps": steps, "check_every": check_every, "batch": batch}

    def learn(self, data: FitData, read: Callable[[FitImages, Tensor], Rows], concepts: Sequence[int]) -> Projection:
        """The concept layer of some concepts.

        Args:
            data: Training and validation images, and the concepts' text vectors.
            read: From images and text vectors to what reads features and targets.
            concepts: Their positions.
        """
        text = data.text[list(concepts)].to(data.device)
        return fit_projection(
            (read(data.train, text), len(data.train)),
            (read(data.val, text), len(data.val)),
            seed=data.seed,
            **self.learning,  # type: ignore[arg-type]
        )

    def finish(self, data: FitData, projection: Projection) -> dict[str, float]:
        """Standardize the scores, fit the head; returns what the history keeps."""
        self.standardize(data.train)
        return {
            "concepts": float(len(self.vectors)),
            "projection_steps": float(projection.steps),
            "projection_similarity": float(projection.similarity.mean()),
            **self.fit_head(data),
        }

    def standardize(self, images: FitImages) -> None:
        """Scores of zero mean and unit variance over the training images."""
        scores = torch.from_numpy(self.score_all(images)).double()
        mean, deviation = scores.mean(0), scores.std(0, correction=0).clamp_min(1e-12)
        self.vectors /= deviation.unsqueeze(1).to(self.vectors)
        self.offsets.copy_(((self.offsets.cpu().double() - mean) / deviation).to(self.offsets))
