"""Mean ratings of true and of shuffled maps, their difference, and whether chance could have made it."""

import numpy as np
import numpy.typing as npt

from conceptlens.core.documents import Part
from conceptlens.evaluation.classification.auc import auc
from conceptlens.stats.bootstrap import bootstrap_intervals

Floats = npt.NDArray[np.float64]
RESAMPLES, PERMUTATIONS = 2000, 10_000


class Mean(Part):
    """A mean with its interval."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0  # ratings
    images: int = 0

    def text(self) -> str:
        if self.value is None:
            return "–"
        return f"{self.value:.2f}" + (f" [{self.low:.2f}, {self.high:.2f}]" if self.low is not None else "")


class Contrast(Part):
    """True against shuffled maps."""

    true: Mean
    shuffled: Mean
    difference: Mean
    p: float | None  # of a permutation of images between the two kinds, two-sided
    above: float | None  # chance that a rating of a true map is above one of a shuffled map; a tie counts half


def contrast(
    ratings: npt.ArrayLike, catch: npt.ArrayLike, images: npt.ArrayLike, *, seed: int = 0, confidence: float = 0.95
) -> Contrast:
    """Compare ratings (N,) of maps that are shuffled or not (N,), of images (N,), which are what is drawn and permuted.

    Several raters of one image do not make it several images, so intervals and test count images.
    """
    values, shuffled = np.asarray(ratings, dtype=np.float64), np.asarray(catch, dtype=bool)
    names, unit = np.unique(np.asarray(images), return_inverse=True)
    unit = unit.reshape(-1)
    sums, counts = (np.zeros((2, len(names))) for _ in range(2))
    np.add.at(sums, (shuffled.astype(int), unit), values)
    np.add.at(counts, (shuffled.astype(int), unit), 1)

    def mean(kind: int, weights: Floats) -> Floats:
        total = weights @ counts[kind]
        return np.asarray(np.where(total > 0, weights @ sums[kind] / np.maximum(total, 1e-300), np.nan))

    found = bootstrap_intervals(
        {
            "true": lambda weights: mean(0, weights),
            "shuffled": lambda weights: mean(1, weights),
            "difference": lambda weights: mean(0, weights) - mean(1, weights),
        },
        len(names),
        resamples=RESAMPLES,
        confidence=confidence,
        seed=seed,
    )
    every = np.ones((1, len(names)))

    def told(name: str, value: float, kinds: tuple[int, ...]) -> Mean:
        if np.isnan(value):
            return Mean(value=None)
        low, high = found[name] or (None, None)
        rows = counts[list(kinds)]
        return Mean(value=value, low=low, high=high, n=int(rows.sum()), images=int((rows.sum(0) > 0).sum()))

    true, control = float(mean(0, every)[0]), float(mean(1, every)[0])
    return Contrast(
        true=told("true", true, (0,)),
        shuffled=told("shuffled", control, (1,)),
        difference=told("difference", true - control, (0, 1)),
        p=_permutation_p(sums, counts, seed),
        above=auc(values, ~shuffled),
    )


def _permutation_p(sums: Floats, counts: Floats, seed: int) -> float | None:
    """A permutation test: how often images with permuted kinds differ by as much; each image has one kind.

    The observed difference is counted among the permuted ones, so that p is never 0.
    """
    means = sums.sum(0) / np.maximum(counts.sum(0), 1)
    kind = counts[1] > 0
    number = int(kind.sum())
    if not 0 < number < len(means):
        return None
    generator = np.random.default_rng(seed)
    permuted = np.argsort(generator.random((PERMUTATIONS, len(means))), axis=1)[:, :number]
    total = means.sum()

    def gap(inside: Floats) -> Floats:
        return np.asarray(np.abs((total - inside) / (len(means) - number) - inside / number))

    observed = float(gap(np.array([means[kind].sum()]))[0])
    count = int((gap(means[permuted].sum(1)) >= observed - 1e-12).sum())
    return (count + 1) / (PERMUTATIONS + 1)
