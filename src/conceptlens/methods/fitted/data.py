"""What a stage of the kind `fit` gives to a model: all training and validation images at once, as a vector each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.dataset import UNLABELED, Task

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class FitImages:
    """N images of one split. The vectors may be memory maps: slice them, or copy them if they fit in memory."""

    vectors: Floats  # (N, D): what the model's `summarize` says of each
    labels: npt.NDArray[np.int64]  # (N,) class or UNLABELED; (N, C) of 0, 1, UNKNOWN for several classes an image
    concepts: npt.NDArray[np.int8]  # (N, K) of 0, 1, UNKNOWN
    certainty: Floats | None = None  # (N, K): weight of each concept label
    image_text: Floats | None = None  # (N, D_text), unit length, comparable with `FitData.text`
    region_text: Floats | None = None  # (N, G, D_text): the same of each region that `fit_regions` marks

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def labeled(self) -> npt.NDArray[np.int64]:
        """Positions of the images whose class is known."""
        return np.flatnonzero(self.labels != UNLABELED)


@dataclass(frozen=True)
class FitCrops:
    """M cut-outs of training images: where their annotation has boxes, masks or, for a box, a mask's rectangle."""

    vectors: Floats  # (M, D): what the model's `summarize` says of each
    rows: npt.NDArray[np.int64]  # (M,): which training image each was cut from, a row of `FitData.train`
    parts: tuple[str, ...]  # (M,): what the annotation calls it
    boxes: npt.NDArray[np.float64]  # (M, 4): left, top, right, bottom in pixels of the image

    def __len__(self) -> int:
        return len(self.vectors)


@dataclass
class FitData:
    """Everything that `ConceptModel.fit` may learn from.

    Attributes:
        train: Training images.
        val: Validation images, on which settings are chosen.
        classes: Their names.
        concepts: The K concepts.
        text: (K, D_text), unit length: the concepts' texts in the space of `image_text`.
        embed: Further texts to vectors in that space.
        class_weights: (C,) of `training.loss.class_balance`.
        device: Where to compute.
        seed: Of every random choice.
        note: Says something to the person who waits.
        dropped: Concept → why it was left out; filled by `drop`.
        crops: Cut-outs of the training images, for models whose `fit_crops` asks for them.
    """

    train: FitImages
    val: FitImages
    classes: tuple[str, ...]
    concepts: ConceptSet
    text: Tensor
    embed: Callable[[Sequence[str]], Tensor]
    class_weights: Tensor
    task: Task = "single"
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    seed: int = 0
    note: Callable[[str], object] = lambda text: None
    dropped: dict[str, str] = field(default_factory=dict)
    crops: FitCrops | None = None

    def drop(self, concept: int, reason: str) -> None:
        """Leave a concept out, by its position; the model shrinks itself to the others with `keep`."""
        self.dropped[self.concepts.names[concept]] = reason

    def kept(self) -> list[int]:
        """Positions of the concepts that were not dropped.

        Raises:
            UserError: None is left.
        """
        left = [position for position, name in enumerate(self.concepts.names) if name not in self.dropped]
        if not left:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in list(self.dropped.items())[:3])
            raise UserError(
                f"The method left out all {len(self.concepts)} concepts ({reasons}; …). Loosen its cut-offs: see "
                "`conceptlens recipe RECIPE` for their names."
            )
        return left


def some_of_each(labels: npt.NDArray[np.int64], most: int, seed: int) -> npt.NDArray[np.int64]:
    """Rows of at most so many images of each class (N,), drawn by the seed, in order; all for 0 or several classes."""
    if not most or labels.ndim > 1:
        return np.arange(len(labels))
    chance = np.random.default_rng(seed)
    drawn = [chance.permutation(np.flatnonzero(labels == value))[:most] for value in np.unique(labels)]
    return np.sort(np.concatenate(drawn))
