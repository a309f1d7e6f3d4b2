"""Paired permutation test: would the difference be as large if each unit's answers were as likely the other method's?

Under the null hypothesis the labels of two methods can be swapped in any unit (a patient, a lesion), all images and all
seeds of it together. Every difference is a sum over units whose signs the swaps turn (see `questions`), so thousands of
swaps of many comparisons are one matrix product. The test speaks of these trainings; whether another training would
come out the same, the interval over seeds says.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from conceptlens.stats.questions import Question, difference

Floats = npt.NDArray[np.float64]
BLOCK = 4_000_000  # signs in memory at once


def unit_differences(first: Sequence[Question], second: Sequence[Question], units: npt.NDArray[np.str_]) -> Floats:
    """What each unit (U,) adds to the mean difference over seeds; the seeds of both methods in the same order."""
    parts = np.mean([difference(one, two) for one, two in zip(first, second, strict=True)], axis=0)
    number = np.unique(units, return_inverse=True)[1].reshape(-1)
    return np.bincount(number, parts).astype(np.float64)


def p_values(parts: Floats, *, permutations: int = 10_000, seed: int = 0) -> Floats:
    """Two-sided p-values (Q,) of Q comparisons.

    Args:
        parts: (U, Q): what each unit adds to each difference.
        permutations: Random swaps; the smallest possible p-value is 1 / (permutations + 1).
        seed: Of the swaps.
    """
    units, _ = parts.shape
    observed = np.abs(parts.sum(0))
    scale = np.abs(parts).sum(0)
    slack = 1e-9 * scale  # sums in another order must not count as smaller
    generator = np.random.default_rng([seed, 2])
    reached = np.zeros(parts.shape[1], dtype=np.int64)
    step = max(1, BLOCK // max(units, 1))
    for start in range(0, permutations, step):
        count = min(step, permutations - start)
        bits = np.unpackbits(generator.integers(256, size=(count, -(-units // 8)), dtype=np.uint8), axis=1)
        signs = 2.0 * bits[:, :units] - 1
        reached += (np.abs(signs @ parts) >= observed - slack).sum(0)
    return np.asarray((reached + 1) / (permutations + 1))


def holm(raw: npt.ArrayLike) -> Floats:
    """p-values (Q,) adjusted for Q comparisons (S. Holm, 1979): reject those below the level, and no more than one
    family in twenty holds a false rejection at level 0.05, whatever the dependence between the tests."""
    p = np.asarray(raw, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.maximum.accumulate((len(p) - np.arange(len(p))) * p[order])
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted
