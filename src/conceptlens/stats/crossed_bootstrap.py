"""Intervals of a mean over seeds, by a bootstrap of test units crossed with seeds.

Two things could have come out otherwise: which patients were tested, and how each training began. So both are drawn
again: units (a patient brings all images) with all seeds, seeds with all units; the two deviations add up, as in an
analysis of variance with two crossed random effects. Drawing both at once (the pigeonhole bootstrap: A. B. Owen, 2007)
would count their interaction three times; here it counts twice, which errs on the side of caution.

There are many units but few seeds, and percentiles of a handful of numbers are too narrow (T. Hesterberg: What teachers
should know about the bootstrap, 2015). So the seeds' deviations are stretched by √(S / (S − 1)), and all of them by the
ratio of Cochran's quantile to the normal one. Cochran's is the mean of the normal quantile and of Student's t with
S − 1 degrees of freedom, weighted by the variances that units and seeds bring (W. G. Cochran, G. M. Cox: Experimental
designs, 1950): near the normal where the units make most of the variance, near t where the seeds do. With one seed the
interval speaks of this one training.

Two methods share the test units, so a difference is paired over units. Their seeds have nothing in common but a number,
so they are drawn separately, and the degrees of freedom are Welch's; repeats of a cross-validation share their division
of the images and are drawn together.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.stats import norm, t

from conceptlens.stats.bootstrap import resample_weights
from conceptlens.stats.questions import Question, value

Floats = npt.NDArray[np.float64]
TINY = 1e-12  # smaller tails count as equal


@dataclass(frozen=True, eq=False)
class Spread:
    """A measure of S trainings: as it is, and over B resamples of the units."""

    plain: Floats  # (S,)
    resampled: Floats  # (S, B)
    apart: tuple[Floats, ...] = ()  # sets of trainings that are drawn separately and add up to `plain`; itself if empty

    def minus(self, other: "Spread", *, paired: bool = False) -> "Spread":
        """The difference, with the same units in each resample; trainings are drawn together only if paired."""
        sides = () if paired else (self.plain, -other.plain)
        return Spread(self.plain - other.plain, self.resampled - other.resampled, sides)

    def of(self, places: list[int]) -> "Spread":
        """Some of the trainings, by position."""
        return Spread(self.plain[places], self.resampled[places])

    @property
    def mean(self) -> float:
        return float(self.plain.mean())

    @property
    def _sets(self) -> tuple[Floats, ...]:
        """The sets of which more than one training is known: only those can be drawn from."""
        return tuple(each for each in self.apart or (self.plain,) if len(each) > 1)

    def draws(self, *, seed: int = 0) -> Floats:
        """Means (B,) with units and seeds drawn again."""
        total = self.resampled.mean(0)
        generator = np.random.default_rng([seed, 1])
        for trainings in self._sets:
            count = len(trainings)
            drawn = generator.integers(count, size=(len(total), count))
            total = total + np.sqrt(count / (count - 1)) * (trainings[drawn].mean(1) - trainings.mean())
        return np.asarray(total)

    def interval(
        self, confidence: float = 0.95, *, within: tuple[float, float] = (-np.inf, np.inf)
    ) -> tuple[float, float] | None:
        """Percentiles, cut to what the measure can be; None where it has no value, or hardly ever."""
        tail = (1 - confidence) / 2
        draws = self.draws()
        known = draws[np.isfinite(draws)]
        if not np.isfinite(self.plain).all() or len(known) < max(2, len(draws) / 2):
            return None
        stretch = self._quantile(tail) / float(norm.isf(tail))
        low, high = np.clip(self.mean + stretch * (np.quantile(known, [tail, 1 - tail]) - self.mean), *within)
        return float(low), float(high)

    def error(self) -> float:
        """The standard error of the mean: units and seeds, added."""
        return float(np.sqrt(self._units + sum(self._seeds)))

    def p_value(self) -> float:
        """Two-sided, of no difference, were other patients tested and other seeds trained."""
        error, mean = self.error(), abs(self.mean)
        if not np.isfinite(mean + error):
            return 1.0
        if error == 0:
            return float(mean == 0)
        reached = mean / error
        if reached >= self._quantile(TINY):
            return 2 * TINY
        return float(2 * brentq(lambda tail: self._quantile(tail) - reached, TINY, 0.5))

    def detectable(self, *, alpha: float = 0.05, power: float = 0.8, comparisons: int = 1) -> float:
        """The true difference that the test would find with that power, at the first step of Holm's method."""
        return (self._quantile(alpha / (2 * comparisons)) + self._quantile(1 - power)) * self.error()

    def _quantile(self, tail: float) -> float:
        """Cochran's: that of the normal distribution and that of t, weighted by the variances."""
        units, seeds = self._units, sum(self._seeds)
        if seeds == 0:
            return float(norm.isf(tail))
        freedom = seeds**2 / sum(
            part**2 / (len(trainings) - 1) for part, trainings in zip(self._seeds, self._sets, strict=True)
        )
        return float((units * norm.isf(tail) + seeds * t.isf(tail, freedom)) / (units + seeds))

    @cached_property
    def _units(self) -> float:
        """Variance of the mean by the choice of units."""
        return float(np.nanvar(self.resampled.mean(0), ddof=1))

    @cached_property
    def _seeds(self) -> list[float]:
        """Variance of the mean by the choice of seeds, of each set."""
        return [float(each.var(ddof=1) / len(each)) for each in self._sets]


def spreads(
    trainings: Sequence[Mapping[str, Question]], units: npt.NDArray[np.str_], *, resamples: int = 1000, seed: int = 0
) -> dict[str, Spread]:
    """Each measure of several trainings on the same images.

    Args:
        trainings: For each seed, its measures as questions to N images.
        units: (N,): what is drawn together.
        resamples: How many times units are drawn.
        seed: Of the draws: equal seeds draw the same units, so that methods can be paired.
    """
    names = list(trainings[0])
    whole = np.ones((1, len(units)))
    plain = {name: np.array([value(each[name], whole)[0] for each in trainings]) for name in names}
    parts: dict[str, list[Floats]] = {name: [] for name in names}
    for weights in resample_weights(len(units), list(units), resamples=resamples, seed=seed):
        for name in names:
            parts[name].append(np.stack([value(each[name], weights) for each in trainings]))
    return {name: Spread(plain[name], np.concatenate(parts[name], axis=1)) for name in names}
