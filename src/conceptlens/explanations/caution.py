"""What warns of an answer: an image that is unlike the training images, and the classes that cannot be excluded.

Both come from files that training leaves in the run folder. A run without them (of an earlier version, or with few
validation images) has none, and says why.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import DamagedError, UserError
from conceptlens.core.files import read_json
from conceptlens.nn.heads.probabilities import class_probabilities
from conceptlens.runs.image_distribution import FILE, LEAST, ImageDistribution
from conceptlens.runs.predictions import StoredPredictions, load_predictions
from conceptlens.runs.saved import Card
from conceptlens.stats.conformal import threshold, thresholds

SETS = "prediction_sets.json"  # in a published run, which keeps no predictions: the bounds alone
ALPHA = 0.1  # share of images whose prediction set may miss the truth
UNLIKE = "unlike the training images: do not rely on this answer"
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Caution:
    """What a run knows to warn with.

    Attributes:
        images: Its training images; None where it keeps nothing of them.
        bounds: (C,) a class is in the prediction set if 1 − its probability is at most this; None without sets.
        without: Why something is missing, in words.
    """

    images: ImageDistribution | None = None
    bounds: Floats | None = None
    without: tuple[str, ...] = ()

    @classmethod
    def read(cls, run: Path, card: Card) -> "Caution":
        """From the files of a run folder."""
        images = ImageDistribution.read(run, card.weights_hash)
        why = []
        if not images:
            why.append(
                f"Images are not compared with the training images: this run has no {FILE}. It takes {LEAST} training "
                f"and {LEAST} validation images."
            )
        try:
            validation = load_predictions(run, "val")
            bounds = set_bounds(validation)
            if bounds is None:
                why.append("There are no prediction sets: too few validation images have a class.")
        except DamagedError:
            raise  # what is there and damaged is not done without
        except UserError:
            bounds = published_bounds(run)
            if bounds is None:
                why.append("There are no prediction sets: this run keeps no predictions of validation images.")
        if why:
            why.append("In a run of an earlier version, `conceptlens trust RUN` adds what its data allow.")
        return cls(images, bounds, tuple(why))

    def distances(self, vectors: npt.NDArray[np.floating] | None) -> list[float] | None:
        """How far images (N, D) are from the training images, 1 at the bound beyond which they are unlike them."""
        if self.images is None or vectors is None or vectors.shape[1] != len(self.images.mean):
            return None
        return [float(each) for each in self.images.scores(vectors) / max(self.images.bound, 1e-12)]

    def unlike(self, vectors: npt.NDArray[np.floating] | None) -> list[bool] | None:
        """Which images (N, D) are unlike the training images; None where that is not known."""
        if self.images is None or vectors is None or vectors.shape[1] != len(self.images.mean):
            return None
        return [bool(each) for each in self.images.unlike(vectors)]

    def prediction_set(self, classes: list[str], probabilities: Floats) -> list[str] | None:
        """The classes that cannot be excluded; None where that is not known."""
        if self.bounds is None or len(self.bounds) != len(probabilities):
            return None
        return [name for name, kept in zip(classes, 1 - probabilities <= self.bounds, strict=True) if kept]


def published_bounds(run: Path) -> Floats | None:
    """What a published run says of its prediction sets; None where it says nothing."""
    if not (run / SETS).is_file():
        return None
    found = read_json(run / SETS).get("bounds", [])
    if not isinstance(found, list) or not all(each is None or isinstance(each, int | float) for each in found):
        raise UserError(f"{run / SETS}: expected a number or null for each class. Fetch the model again.")
    return np.array([np.inf if each is None else each for each in found], dtype=np.float64)


def set_bounds(validation: StoredPredictions, alpha: float = ALPHA) -> Floats | None:
    """Of each class (C,): 1 − probability up to which it is in the set, by validation images; None with too few.

    Of several labels each has its own bound, so that 9 of 10 images that have a label have it in their set.
    """
    shares = class_probabilities(validation.logits, validation.task)
    if validation.task == "multilabel":
        bounds = np.array(
            [
                threshold(1 - column[truth == 1], alpha)
                for column, truth in zip(shares.T, validation.labels.T, strict=True)
            ]
        )
        return bounds if np.isfinite(bounds).any() else None
    known = validation.labels >= 0
    bounds = thresholds(shares[known], validation.labels[known], shares.shape[1], alpha, each=False)
    return bounds if np.isfinite(bounds).all() else None


def set_words(names: list[str] | None, classes: int, *, several: bool = False) -> str | None:
    """A prediction set for people; None where there is none.

    Args:
        names: The set.
        classes: How many there are.
        several: Several labels may hold.
    """
    if names is None:
        return None
    if several:
        return f"may hold: {', '.join(names)}" if names else "no label is likely enough to hold"
    if not names:
        return "the model is less sure here than of 9 in 10 validation images (empty prediction set)"
    if len(names) == 1:
        return f"only {names[0]} fits"
    told = f"one of: {', '.join(names)}"
    return f"undecided, {told}" if len(names) > max(2, classes / 2) else told
