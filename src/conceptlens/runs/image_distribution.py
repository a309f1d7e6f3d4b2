"""`distribution.safetensors` of a run: what training images look like to the encoder, so that others are noticed.

An image is a vector: the mean of its patches as they leave the encoder. Training images are taken as a Gaussian whose
covariance has their main directions and one variance for all others (M. Tipping, C. Bishop: Probabilistic
principal component analysis, 1999); an image's score is its Mahalanobis distance. It is unlike the training images if
its score is beyond that of 99 of 100 validation images.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor

from conceptlens.core import manifest
from conceptlens.core.files import write_bytes
from conceptlens.stats.conformal import rank

FILE = "distribution.safetensors"
TRAINING = 2000  # images it is learned from, at most
DIRECTIONS = 64
RATE = 0.01  # of validation images that may be beyond the bound
LEAST = 20  # training and validation images without which nothing is said
TINY = 1e-6
Vectors = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float64]
ARRAYS = ("mean", "scale", "directions", "variances")
NUMBERS = ("rest", "bound", "training", "validation")


def image_vectors(patches: Tensor) -> Tensor:
    """Patches (B, L, D) → their mean, (B, D)."""
    return patches.detach().float().mean(1)


@dataclass(frozen=True)
class ImageDistribution:
    """Training images, and from where on an image is unlike them."""

    mean: Floats  # (D,)
    scale: Floats  # (D,): standard deviations
    directions: Floats  # (D, R): main directions of scaled vectors, orthonormal
    variances: Floats  # (R,)
    rest: float  # variance in every other direction
    bound: float
    training: int  # images
    validation: int
    weights: str  # hash of the model

    @classmethod
    def fit(cls, training: Vectors, validation: Vectors, weights: str) -> "ImageDistribution | None":
        """Learn from vectors (n, D) of training images; the bound is that of validation images (m, D).

        None with fewer than 20 images of either. With fewer than 99 of validation the bound is their largest score.
        """
        if min(len(training), len(validation)) < LEAST or not np.isfinite(training).all():
            return None
        rows = training.astype(np.float64)
        mean, scale = rows.mean(0), rows.std(0)
        scale = np.maximum(scale, TINY * max(float(scale.max()), TINY))
        _, lengths, vectors = np.linalg.svd((rows - mean) / scale, full_matrices=False)
        variances = lengths**2 / (len(rows) - 1)
        kept = min(DIRECTIONS, len(rows) // 4, rows.shape[1] - 1)
        rest = float(variances[kept:].sum() / (rows.shape[1] - kept))
        found = cls(
            mean=mean,
            scale=scale,
            directions=vectors[:kept].T,
            variances=np.maximum(variances[:kept], TINY),
            rest=max(rest, TINY),
            bound=0.0,
            training=len(rows),
            validation=len(validation),
            weights=weights,
        )
        place = min(rank(len(validation), RATE), len(validation))
        bound = float(np.sort(found.scores(validation))[place - 1])
        return replace(found, bound=bound)

    @classmethod
    def keep(cls, training: Vectors | None, validation: Vectors | None, run: Path, weights: str) -> None:
        """Learn, and write it into the run folder; nothing, where there is too little to learn from."""
        found = None if training is None or validation is None else cls.fit(training, validation, weights)
        if found is not None:
            found.write(run)

    def scores(self, vectors: npt.NDArray[np.floating]) -> Floats:
        """How far images (N, D) are from the training images, (N,)."""
        scaled = (vectors.astype(np.float64) - self.mean) / self.scale
        along = scaled @ self.directions
        left = np.maximum((scaled**2).sum(1) - (along**2).sum(1), 0.0)
        return np.asarray(np.sqrt((along**2 / self.variances).sum(1) + left / self.rest))

    def unlike(self, vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
        """Which images (N, D) are unlike the training images, (N,); one that has no finite vector is."""
        return np.asarray(~(self.scores(vectors) <= self.bound))

    def write(self, run: Path) -> None:
        arrays = {name: np.ascontiguousarray(getattr(self, name), dtype=np.float32) for name in ARRAYS}
        words = {name: json.dumps(getattr(self, name)) for name in NUMBERS}
        write_bytes(run / FILE, save(arrays, {**words, "weights": self.weights}))

    @classmethod
    def read(cls, run: Path, weights: str) -> "ImageDistribution | None":
        """What a run keeps; None where it keeps nothing, or that of other weights."""
        manifest.refuse_gone(run / FILE)
        try:
            manifest.check(run / FILE)
            with safe_open(run / FILE, "np") as file:
                arrays = {name: file.get_tensor(name).astype(np.float64) for name in ARRAYS}
                words = file.metadata() or {}
            if words["weights"] != weights:
                return None
            numbers = {name: json.loads(words[name]) for name in NUMBERS}
        except (OSError, SafetensorError, KeyError, ValueError):
            return None  # not there, or damaged: nothing is said of images
        return cls(**arrays, **numbers, weights=weights)
