"""Percentile bootstrap (Efron, 1979) of images, or of groups: images of one patient or lesion are not independent."""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import UserError

Floats = npt.NDArray[np.float64]
Statistic = Callable[[Floats], Floats]  # weights (R, N) → values (R,), NaN where there is none
BLOCK = 2_000_000  # weights in memory at once


def resample_weights(
    n: int, groups: Sequence[str] | None = None, *, resamples: int = 1000, seed: int = 0
) -> Iterator[Floats]:
    """How often each of n images is drawn in each resample, in blocks (R', n) stored column by column.

    Units (the groups, or single images) are drawn with replacement, as many as there are; a group brings all its
    images. The weights do not depend on how the resamples are cut into blocks.
    """
    unit = np.arange(n) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    if len(unit) != n:
        raise UserError(f"The bootstrap needs a group for each of {n} images, found {len(unit)}.")
    units = int(unit.max(initial=-1)) + 1
    generator = np.random.default_rng(seed)
    step = max(1, BLOCK // max(n, 1))
    for start in range(0, resamples, step):
        count = min(step, resamples - start)
        drawn = np.stack([np.bincount(generator.integers(units, size=units), minlength=units) for _ in range(count)])
        yield drawn.T.astype(np.float64)[unit].T


def bootstrap_intervals(
    statistics: Mapping[str, Statistic],
    n: int,
    groups: Sequence[str] | None = None,
    *,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, list[float] | None]:
    """Percentile intervals [low, high] of statistics of n images, all from the same resamples.

    Args:
        statistics: Functions of a weight matrix (R, n), such as those of `weighted`.
        n: Number of images.
        groups: The group of each image, where images come in groups.
        resamples: How many times to draw.
        confidence: Of the intervals.
        seed: Of the draws.

    Returns:
        For each statistic its interval, over the resamples in which it has a value; None if there are none, or with
        fewer than two units to draw from.
    """
    if not 0 < confidence < 1:
        raise UserError(f"The confidence of an interval lies between 0 and 1, such as 0.95; found {confidence}.")
    if (n if groups is None else len(set(groups))) < 2 or resamples < 1:
        return dict.fromkeys(statistics)
    values: dict[str, list[Floats]] = {name: [] for name in statistics}
    for weights in resample_weights(n, groups, resamples=resamples, seed=seed):
        for name, statistic in statistics.items():
            values[name].append(statistic(weights))
    return {name: _interval(np.concatenate(parts), confidence) for name, parts in values.items()}


def _interval(values: Floats, confidence: float) -> list[float] | None:
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    tail = (1 - confidence) / 2
    return [float(bound) for bound in np.quantile(known, [tail, 1 - tail])]
