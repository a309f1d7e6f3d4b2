"""The bound of split conformal prediction: what a new value exceeds at most as often as is said.

V. Vovk, A. Gammerman, G. Shafer: Algorithmic learning in a random world, 2005.
"""

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def rank(n: int, alpha: float) -> int:
    """⌈(n + 1)(1 − α)⌉; above n there are too few images for the promise, and every answer must be in the set."""
    return math.ceil((n + 1) * (1 - alpha) - 1e-12)


def threshold(scores: Floats, alpha: float) -> float:
    """The largest score that is let in; infinite with too few calibration images."""
    place = rank(len(scores), alpha)
    return float(np.sort(scores)[place - 1]) if place <= len(scores) else math.inf


def thresholds(probabilities: Floats, truth: Indices, answers: int, alpha: float, *, each: bool) -> Floats:
    """Largest score that is let in, for each answer (V,): one for all, or each answer's own."""
    scores = 1 - probabilities[np.arange(len(truth)), truth]
    if not each:
        return np.full(answers, threshold(scores, alpha))
    return np.array([threshold(scores[truth == answer], alpha) for answer in range(answers)])
