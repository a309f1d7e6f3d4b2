"""A number with its interval, from the bootstrap over images or over patients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conceptlens.core.documents import Part, TableRow
from conceptlens.stats.bootstrap import Statistic, bootstrap_intervals
from conceptlens.stats.weighted import weighted_accuracy

Floats = npt.NDArray[np.float64]


class Estimate(Part):
    """A value and its interval [low, high]; None where there is none."""

    value: float | None
    interval: tuple[float, float] | None = None

    @property
    def low(self) -> float | None:
        return None if self.interval is None else self.interval[0]

    @property
    def high(self) -> float | None:
        return None if self.interval is None else self.interval[1]

    def row(self, name: str = "") -> TableRow:
        """Cells of a table: `value`, `low` and `high`; with a name, `NAME`, `NAME_low` and `NAME_high`."""
        names = (name, f"{name}_low", f"{name}_high") if name else ("value", "low", "high")
        return dict(zip(names, (self.value, self.low, self.high), strict=True))

    def text(self) -> str:
        if self.value is None:
            return "-"
        spread = "" if self.interval is None else f" ({self.interval[0]:.3f} to {self.interval[1]:.3f})"
        return f"{self.value:.3f}{spread}"


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are made."""

    units: Sequence[str]  # (N,) what is drawn together
    resamples: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def of(self, statistics: Mapping[str, Statistic]) -> dict[str, Estimate]:
        """Each statistic of all images, with its interval over resamples."""
        everyone = np.ones((1, len(self.units)))
        found = bootstrap_intervals(
            statistics,
            len(self.units),
            self.units,
            resamples=self.resamples,
            confidence=self.confidence,
            seed=self.seed,
        )
        estimates = {}
        for name, statistic in statistics.items():
            value, interval = float(statistic(everyone)[0]), found[name]
            estimates[name] = Estimate(
                value=None if np.isnan(value) else value,
                interval=None if interval is None else (interval[0], interval[1]),
            )
        return estimates

    def means(self, columns: Mapping[str, Floats]) -> dict[str, Estimate]:
        """The mean of each column (N,) over the images where it is not NaN."""
        return self.of({name: mean_of_column(column) for name, column in columns.items()})


def mean_of_column(column: Floats) -> Statistic:
    """The mean of a column (N,) as a function of image weights."""
    known = ~np.isnan(column)
    filled = np.where(known, column, 0.0)
    return lambda weights: weighted_accuracy(filled, weights, known)
