"""Cross-validation folds. Images of one patient or lesion stay in one fold."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]
FOLDS = 5


def assign_folds(units: Sequence[str] | Indices, folds: int = FOLDS, *, seed: int = 0) -> Indices:
    """The fold of each image, (N,): units in random order, one fold after the other."""
    names, unit = np.unique(np.asarray(units), return_inverse=True)
    place = np.empty(len(names), dtype=np.int64)
    place[np.random.default_rng(seed).permutation(len(names))] = np.arange(len(names))
    return np.asarray(place[unit.reshape(-1)] % folds)


def sides(fold: Indices) -> list[tuple[Indices, Indices]]:
    """(learn, ask) for each fold; a single fold learns from itself, there being nothing else."""
    found = []
    for each in np.unique(fold):
        ask = np.flatnonzero(fold == each)
        learn = np.flatnonzero(fold != each)
        found.append((learn if len(learn) else ask, ask))
    return found
