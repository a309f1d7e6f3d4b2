"""Label noise as the disagreement of close neighbors: images that look alike should mostly carry the same label."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
BLOCK = 512  # images compared at once


def nearest(features: Floats, units: Indices, k: int) -> Indices:
    """The k nearest images (N, k) by cosine, of other units (patients, lesions); -1 where there are too few."""
    unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
    found = np.full((len(unit), k), -1, dtype=np.int64)
    for start in range(0, len(unit), BLOCK):
        rows = slice(start, start + BLOCK)
        cosines = unit[rows] @ unit.T
        cosines[units[rows, None] == units[None]] = -np.inf
        take = min(k, cosines.shape[1])
        order = np.argsort(-cosines, axis=1, kind="stable")[:, :take]
        reached = np.isfinite(np.take_along_axis(cosines, order, 1))
        found[rows, :take] = np.where(reached, order, -1)
    return found


def disagreement(labels: npt.NDArray[np.int8], near: Indices) -> Floats:
    """For each image and concept (N, K) the share of known neighbors with the other label; NaN where none is known."""
    result = np.full(labels.shape, np.nan)
    for k in range(labels.shape[1]):
        column = labels[:, k]
        beside = np.where(near >= 0, column[np.maximum(near, 0)], -1)
        known = beside >= 0
        other = known & (beside != column[:, None])
        count = known.sum(1)
        use = (column >= 0) & (count > 0)
        result[use, k] = other.sum(1)[use] / count[use]
    return result


def chance_disagreement(column: npt.NDArray[np.int8]) -> float | None:
    """How often two images drawn at random carry different labels: 2p(1 − p)."""
    known = column[column >= 0]
    if not len(known):
        return None
    share = float((known == 1).mean())
    return 2 * share * (1 - share)
