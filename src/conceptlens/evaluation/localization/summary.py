"""Means of measures with bootstrap intervals over images, and paired differences between maps of the same images.

A mean is taken over the images in which a concept's region is seen, then over concepts. `lift` is mean energy over mean
share: how many times more mass than a uniform map a method puts into the region.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from conceptlens.core.documents import TableRow
from conceptlens.recipes.schema import MetricsConfig
from conceptlens.stats.bootstrap import Statistic, bootstrap_intervals
from conceptlens.stats.weighted import mean_known, ratio

Floats = npt.NDArray[np.float64]
Columns = Mapping[str, Floats]  # a measure's name → (N, K), NaN where no region is known
Estimate = dict[str, float | list[float] | None]
Name = TypeVar("Name", bound=Hashable)
LIFT = "lift"


def summarize(
    columns: Columns, concepts: Sequence[int], units: Sequence[str] | None, config: MetricsConfig, *, seed: int = 0
) -> dict[str, Estimate]:
    """`{measure: {value, interval}}` for some concepts of the maps of N images; None where nothing is known.

    Args:
        columns: The measures, (N, K) each.
        concepts: Positions of the concepts that count.
        units: What is drawn together: the patient or lesion of each image.
        config: Resamples and confidence.
        seed: Of the draws.
    """
    return estimates(_statistics(columns, concepts), _length(columns), units, config, seed=seed)


def differences(
    ours: Columns,
    theirs: Columns,
    concepts: Sequence[int],
    units: Sequence[str] | None,
    config: MetricsConfig,
    *,
    seed: int = 0,
) -> dict[str, Estimate]:
    """`{measure: {value, interval}}` of ours minus theirs on the same images, each resample drawn for both."""
    both = _statistics(ours, concepts), _statistics(theirs, concepts)

    def minus(name: str) -> Statistic:
        return lambda weights: both[0][name](weights) - both[1][name](weights)

    shared = [name for name in both[0] if name in both[1]]
    return estimates({name: minus(name) for name in shared}, _length(ours), units, config, seed=seed)


def estimate_cells(estimate: Estimate) -> TableRow:
    """Cells of a table: value, low and high."""
    value, interval = estimate["value"], estimate.get("interval")
    low, high = interval if isinstance(interval, list | tuple) else (None, None)
    return {"value": None if isinstance(value, list) else value, "low": low, "high": high}


def _length(columns: Columns) -> int:
    return len(next(iter(columns.values())))


def _statistics(columns: Columns, concepts: Sequence[int]) -> dict[str, Statistic]:
    means = {name: mean_of(values, concepts) for name, values in columns.items()}
    if "energy" in means and "share" in means:

        def lift(weights: Floats) -> Floats:
            return ratio(means["energy"](weights), means["share"](weights))

        means[LIFT] = lift
    return means


def mean_of(values: Floats, concepts: Sequence[int]) -> Statistic:
    """The mean over images, then over some concepts, of values (N, K); NaN counts nowhere."""
    chosen = values[:, list(concepts)]
    known = ~np.isnan(chosen)
    filled, counted = np.where(known, chosen, 0.0), known.astype(np.float64)

    def mean(weights: Floats) -> Floats:
        return mean_known(ratio(weights @ filled, weights @ counted))

    return mean


def estimates(
    statistics: Mapping[Name, Statistic], n: int, units: Sequence[str] | None, config: MetricsConfig, *, seed: int = 0
) -> dict[Name, Estimate]:
    """`{value, interval}` of statistics of n images, all from the same draws."""
    numbered = {str(number): statistic for number, statistic in enumerate(statistics.values())}
    intervals = bootstrap_intervals(
        numbered, n, units, resamples=config.bootstrap, confidence=config.confidence, seed=seed
    )
    once = np.ones((1, n))
    values = [float(statistic(once)[0]) for statistic in statistics.values()]
    return {
        name: {"value": None if np.isnan(value) else value, "interval": interval}
        for name, value, interval in zip(statistics, values, intervals.values(), strict=True)
    }
