"""How many labels would give which concept accuracy: a power law through the accuracies of smaller samples.

Accuracy with n labels is taken as a − b · n^(−c), as learning curves are (Cortes et al., 1993), of a ridge regression
on the encoder's vectors. It is an estimate for a simple model, and says which way and how far more labels lead.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.evaluation.classification.balanced import balanced_accuracy
from conceptlens.stats.folds import assign_folds
from conceptlens.workflows.authoring.images.probe import held_out_scores

Floats = npt.NDArray[np.float64]
LEAST = 40  # labeled images below which no curve is drawn
SHARES = (0.25, 0.4, 0.6, 0.8, 1.0)
REPEATS = 5
MORE = (50, 150, 500)
EXPONENTS = np.linspace(0.2, 1.0, 9)


@dataclass(frozen=True)
class Forecast:
    """Concept accuracy with so many labeled images more."""

    more: int
    accuracy: float
    spread: float  # standard deviation over repetitions


def concept_accuracy(
    features: Floats, labels: npt.NDArray[np.int8], concepts: ConceptSet, units: Sequence[str], seed: int
) -> float:
    """Balanced accuracy of held-out images, mean over groups that vary."""
    scores = held_out_scores(features, labels, assign_folds(units, seed=seed))
    found = []
    for group in concepts.groups:
        part, said = labels[:, group.concepts], scores[:, group.concepts]
        if group.kind == "exclusive":
            columns = [((part == 1).any(1), part.argmax(1), np.nan_to_num(said, nan=-np.inf).argmax(1), part.shape[1])]
        else:
            columns = [(part[:, k] >= 0, part[:, k], (said[:, k] > 0).astype(int), 2) for k in range(part.shape[1])]
        for known, truth, answer, count in columns:
            value = balanced_accuracy(answer[known], truth[known].astype(np.int64), count, at_least=2)
            if value is not None:
                found.append(value)
    return float(np.mean(found)) if found else float("nan")


def forecast(
    features: Floats, labels: npt.NDArray[np.int8], concepts: ConceptSet, units: Sequence[str], *, seed: int = 0
) -> tuple[float | None, list[Forecast]]:
    """Accuracy now, and with more of the images labeled; None and nothing where there are too few to tell.

    Args:
        features: (N, D) of all images.
        labels: (N, K) of 0, 1, negative for unknown.
        concepts: K concepts in groups.
        units: (N,), the patient or lesion of each image, which must not be divided between folds.
        seed: Of the samples.
    """
    rows = np.flatnonzero((labels >= 0).any(1))
    if len(rows) < LEAST:
        return None, []
    rng = np.random.default_rng(seed)
    curves = []
    for repeat in range(REPEATS):
        order = rng.permutation(rows)
        sizes = [max(int(share * len(rows)), 8) for share in SHARES]
        parts = [order[:n] for n in sizes]
        curves.append(
            [concept_accuracy(features[p], labels[p], concepts, [units[row] for row in p], repeat) for p in parts]
        )
    values = np.array(curves)  # (repeats, sizes)
    now = float(np.nanmean(values[:, -1]))
    left = len(features) - len(rows)
    ahead = []
    for more in [number for number in MORE if number <= left] or ([left] if left else []):
        told = [extrapolate(np.array(sizes), curve, len(rows) + more) for curve in values]
        accuracy = max(float(np.mean(told)), now)
        ahead.append(Forecast(more, accuracy, float(max(np.std(told), np.nanstd(values[:, -1])))))
    return now, ahead


def extrapolate(sizes: npt.NDArray[np.int64], accuracies: Floats, n: int) -> float:
    """The value at n of the best a − b · n^(−c) with a at most 1 and b at least 0."""
    known = np.isfinite(accuracies)
    if known.sum() < 2:
        return float(np.nanmean(accuracies)) if known.any() else float("nan")
    best, value = np.inf, float(accuracies[known][-1])
    for exponent in EXPONENTS:
        falling = sizes[known].astype(float) ** -exponent
        design = np.stack([np.ones_like(falling), -falling], 1)
        (a, b), *_ = np.linalg.lstsq(design, accuracies[known], rcond=None)
        if a > 1 or b < 0:
            a = min(max(a, 0.0), 1.0)
            b = max(float(((a - accuracies[known]) @ falling) / (falling @ falling)), 0.0)
        error = float(((a - b * falling - accuracies[known]) ** 2).sum())
        if error < best:
            best, value = error, float(a - b * n**-exponent)
    return value
