"""Out-of-distribution detection by the distance of an image's patches from the codebook.

Three numbers an image: how far its patches are from their nearest code on average, how far the farthest twentieth is,
and how far its mean token lies from those of training images (Mahalanobis: K. Lee et al., 2018). Without a codebook,
centers of k-means of training patches take its place. An image whose patches are *nearer* than usual is out of
distribution too: where a codebook lies near zero, the distance is the length of the tokens, and an empty image is near.
So distances are judged by how far their logarithm is from the training images' median. The bound of each number is a
rank among validation images, so that new images of the same kind cross one at most as often as is said, whatever the
distribution.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from sklearn.covariance import ledoit_wolf
from torch import Tensor

from conceptlens.core.documents import Part
from conceptlens.core.errors import UserError
from conceptlens.nn.quantization.clusters import kmeans, sample_rows, squared_distances
from conceptlens.stats.conformal import rank, threshold
from conceptlens.stats.estimates import Bootstrap, Estimate

Floats = npt.NDArray[np.float64]
SCORES = ("patches from the codebook, on average", "patches from the codebook, the farthest", "mean token")
FAR = 0.05  # share of an image's patches that count as the farthest
LEAST_CENTERS = 16
KEPT = 16_384  # training patches that centers are made of
RATE = 0.05
SHOWN = 12
TINY = 1e-12


@dataclass(frozen=True)
class TrainingDistribution:
    """The distribution of training images in the encoder's token space."""

    centers: Tensor  # (M, D)
    codebook: bool  # whether they are the run's own codes
    median: Tensor  # (2,): of the logarithms of the first two numbers
    mean: Tensor  # (D,): of the mean tokens
    whiten: Tensor  # (D, D): turns them into unit variance
    images: int

    def to(self, device: torch.device) -> "TrainingDistribution":
        """The same on a device."""
        parts = (self.centers, self.median, self.mean, self.whiten)
        centers, median, mean, whiten = (part.to(device) for part in parts)
        return TrainingDistribution(centers, self.codebook, median, mean, whiten, self.images)

    def to_tensors(self) -> dict[str, Tensor]:
        """To be read by `from_tensors`."""
        numbers = {"codebook": torch.tensor(self.codebook), "images": torch.tensor(self.images)}
        return numbers | {name: getattr(self, name).cpu() for name in ("centers", "median", "mean", "whiten")}

    @classmethod
    def from_tensors(cls, values: Mapping[str, Tensor]) -> "TrainingDistribution":
        median, mean, whiten = (values[name] for name in ("median", "mean", "whiten"))
        return cls(values["centers"], bool(values["codebook"]), median, mean, whiten, int(values["images"]))

    def scores(self, patches: Tensor, nearest: Tensor | None = None) -> Tensor:
        """Scores (B, 3), larger is further out: patches (B, L, D), squared distances (B, L) if known."""
        z = patches.to(self.centers.dtype)
        lengths = _lengths(squared_distances(z, self.centers).min(-1).values if nearest is None else nearest)
        off = (z.mean(1) - self.mean) @ self.whiten
        return torch.cat([(lengths - self.median).abs(), off.square().sum(1, keepdim=True).sqrt()], dim=1)


def _lengths(nearest: Tensor) -> Tensor:
    """Logarithms (B, 2) of the mean distance, and of the mean of the farthest patches: squared distances (B, L)."""
    far = max(1, round(FAR * nearest.shape[1]))
    pair = torch.stack([nearest.mean(1), nearest.topk(far, dim=1).values.mean(1)], dim=1)
    return pair.clamp_min(TINY).log()


@torch.no_grad()
def fit_distribution(
    batches: Callable[[], Iterable[Tensor]], codebook: Tensor | None, concepts: int
) -> TrainingDistribution:
    """Learn from patches (B, L, D) of training images, a batch at a time; without a codebook they are read twice."""
    centers = _centers(batches(), concepts) if codebook is None else codebook.detach().float()
    means: list[Tensor] = []
    lengths: list[Tensor] = []
    for batch in batches():
        patches = batch.float()
        means.append(patches.mean(1).cpu())
        lengths.append(_lengths(squared_distances(patches, centers.to(patches.device)).min(-1).values).cpu())
    if not means:
        raise UserError("No training image is left to compare others with.")
    rows = torch.cat(means).double()
    covariance, _ = ledoit_wolf(rows.numpy())
    values, vectors = np.linalg.eigh(covariance)
    whiten = vectors / np.sqrt(np.maximum(values, TINY))
    return TrainingDistribution(
        centers,
        codebook is not None,
        torch.cat(lengths).median(0).values.to(centers),
        rows.mean(0).to(centers),
        torch.from_numpy(whiten).to(centers),
        len(rows),
    )


def _centers(batches: Iterable[Tensor], concepts: int) -> Tensor:
    """What stands in for a codebook: k-means of some patches of each batch."""
    generator = torch.Generator().manual_seed(0)
    kept = [sample_rows(batch.float().flatten(0, 1), KEPT // 16, generator).cpu() for batch in batches]
    if not kept:
        raise UserError("No training image is left to compare others with.")
    return kmeans(torch.cat(kept), max(LEAST_CENTERS, concepts), limit=KEPT)


class OodImage(Part):
    """An image that is flagged as out of distribution."""

    image: str
    p: float  # the share of validation images with at least this score, corrected for three scores
    score: str  # the name of the most unusual score


class OutOfDistribution(Part):
    """Bounds, and what they make of a split."""

    compared_with: str  # the run's codebook, or centers of training patches
    training_images: int
    validation_images: int
    rate: float  # false alarms that were aimed at
    expected: float  # false alarms to expect, at most, among images of the same kind
    bounds: dict[str, float | None]  # None: too few validation images for a bound
    flagged: Estimate  # share of the judged images
    images: list[OodImage]  # smallest p first

    def sentence(self, split: str) -> str:
        if all(bound is None for bound in self.bounds.values()):
            need = math.ceil(len(SCORES) / self.rate) - 1
            return (
                f"Images out of distribution cannot be detected: {need} validation images are needed for a false "
                f"alarm rate "
                f"of {self.rate:.0%}."
            )
        return (
            f"{self.flagged.text()} of the {split} images are flagged as out of distribution; at most "
            f"{self.expected:.3f} is expected of images in distribution."
        )


def detect_ood(
    training: TrainingDistribution,
    validation: Floats,
    scores: Floats,
    ids: Sequence[str],
    units: Sequence[str],
    *,
    rate: float = RATE,
    resamples: int = 1000,
) -> OutOfDistribution:
    """Set bounds by validation images and judge others.

    Args:
        training: What was learned from training images.
        validation: (n, 3) scores.
        scores: (N, 3) scores of the judged images.
        ids: (N,) their names.
        units: (N,) what is drawn together for the interval.
        rate: False alarms wanted.
        resamples: Of the interval.
    """
    n, part = len(validation), rate / len(SCORES)
    bounds = [threshold(column, part) for column in validation.T]
    place = rank(n, part)
    each = (n + 1 - place) / (n + 1) if place <= n else 0.0
    flagged: npt.NDArray[np.bool_] = np.asarray((scores > np.array(bounds)).any(1))
    p = p_values(validation, scores)
    order = np.lexsort((np.arange(len(p)), p.min(1)))
    share = Bootstrap(units, resamples).means({"flagged": flagged.astype(np.float64)})["flagged"]
    return OutOfDistribution(
        compared_with="the run's codebook"
        if training.codebook
        else f"{len(training.centers)} centers of training patches",
        training_images=training.images,
        validation_images=n,
        rate=rate,
        expected=each * len(SCORES),
        bounds={name: bound if math.isfinite(bound) else None for name, bound in zip(SCORES, bounds, strict=True)},
        flagged=share,
        images=[
            OodImage(image=ids[row], p=float(min(1.0, len(SCORES) * p[row].min())), score=SCORES[int(p[row].argmin())])
            for row in order.tolist()
            if flagged[row]
        ][:SHOWN],
    )


def p_values(validation: Floats, scores: Floats) -> Floats:
    """(N, 3): the share of validation images, and the image itself, with at least this score."""
    columns = [
        1 + len(known) - np.searchsorted(np.sort(known), column, side="left")
        for known, column in zip(validation.T, scores.T, strict=True)
    ]
    return np.stack(columns, axis=1) / (len(validation) + 1)
