"""Places on a map in three dimensions, of which the first two are the map in two: principal components."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Place = tuple[float, float, float]


def places(vectors: Floats) -> tuple[list[Place], list[float]]:
    """Vectors (n, D) → their places, scaled into [−1, 1], and the share of the variance that each axis shows.

    Axes are turned so that the farthest point lies on the positive side: the map is the same every time.
    """
    centered = np.asarray(vectors, dtype=np.float64) - np.mean(vectors, axis=0)
    u, s, _ = np.linalg.svd(centered, full_matrices=False)
    found = np.zeros((len(centered), 3))
    count = min(3, len(s))
    found[:, :count] = u[:, :count] * s[:count]
    farthest = found[np.abs(found).argmax(0), np.arange(3)]
    found *= np.where(farthest < 0, -1, 1)
    size = np.abs(found).max(initial=0)
    if size > 0:
        found /= size
    total = float((s**2).sum())
    shares = [float(value**2 / total) if total > 0 else 0.0 for value in s[:count]]
    return [(float(x), float(y), float(z)) for x, y, z in found.round(5)], shares + [0.0] * (3 - count)
