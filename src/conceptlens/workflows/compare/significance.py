"""Which differences are real: intervals, tests and verdicts of the rows of one block.

A difference counts when two tests agree: the permutation test over units, which asks whether these trainings differ on
patients like these, and the test over units and seeds, which asks whether other trainings would differ too. With few
seeds the first alone would be wrong often: two trainings of *one* method differ by it. The larger of the two p-values
is corrected by Holm's method over all pairs of the block.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from conceptlens.stats.crossed_bootstrap import Spread, spreads
from conceptlens.stats.paired_permutation import holm, p_values, unit_differences
from conceptlens.workflows.compare.file import StatisticsFile
from conceptlens.workflows.compare.gather import Replicate, Row

MEASURES = (
    "class.accuracy",
    "class.balanced_accuracy",
    "class.macro_auc",
    "concept.balanced_accuracy",
    "concept.auc",
    "concept.auc_within_class",
)


@dataclass(frozen=True)
class Versus:
    """One method against another, on one measure."""

    measure: str
    first: str
    second: str
    difference: float  # first minus second
    interval: tuple[float, float] | None
    p_images: float  # permutation test over units
    p_seeds: float  # over units and seeds
    p: float  # the larger, after Holm's correction
    detectable: float  # smallest true difference that would be found
    trainings: int  # in common
    different: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Judged:
    """What is known of the rows of one block."""

    spreads: dict[str, dict[str, Spread]]  # row → measure → spread
    versus: list[Versus]
    controls: list[Versus]  # each method against itself with random text

    def best(self, measure: str, names: Sequence[str]) -> str | None:
        """The row that is better than every other and distinguishable from each; None where there is none."""
        means = {name: self.spreads[name][measure].mean for name in names if measure in self.spreads[name]}
        if len(means) < 2:
            return None
        top = max(means, key=lambda name: means[name])
        found = [each for each in self.versus if each.measure == measure and top in (each.first, each.second)]
        return top if len(found) == len(means) - 1 and all(each.different for each in found) else None


def judge(rows: Sequence[Row], units: npt.NDArray[np.str_], settings: StatisticsFile) -> Judged:
    """Compare all pairs of the rows of a block that are no controls, and each control with its method."""
    found = {row.entry.name: _spreads(row, units, settings) for row in rows}
    by_name = {row.entry.name: row for row in rows}
    ranked = [row for row in rows if row.entry.control_of not in by_name]
    controls = [(by_name[row.entry.control_of], row) for row in rows if row.entry.control_of in by_name]
    return Judged(
        found, _family(list(combinations(ranked, 2)), found, units, settings), _family(controls, found, units, settings)
    )


def _spreads(row: Row, units: npt.NDArray[np.str_], settings: StatisticsFile) -> dict[str, Spread]:
    names = [name for name in MEASURES if all(name in training for training in row.trainings.values())]
    trainings = [{name: training[name] for name in names} for training in row.trainings.values()]
    return spreads(trainings, units, resamples=settings.resamples) if names else {}


def _family(
    pairs: Sequence[tuple[Row, Row]],
    found: dict[str, dict[str, Spread]],
    units: npt.NDArray[np.str_],
    settings: StatisticsFile,
) -> list[Versus]:
    """Every measure of every pair; Holm's correction over the pairs, measure by measure."""
    judged: list[Versus] = []
    for measure in MEASURES:
        asked = [pair for pair in pairs if _comparable(*pair, measure)]
        if not asked:
            continue
        common = [[key for key in one.trainings if key in two.trainings] for one, two in asked]
        parts = [
            unit_differences(
                [one.trainings[key][measure] for key in keys], [two.trainings[key][measure] for key in keys], units
            )
            for (one, two), keys in zip(asked, common, strict=True)
        ]
        by_images = p_values(np.stack(parts, axis=1), permutations=settings.permutations)
        apart = [
            _chosen(one, keys, found)[measure].minus(_chosen(two, keys, found)[measure], paired=_divided(keys))
            for (one, two), keys in zip(asked, common, strict=True)
        ]
        by_seeds = np.array([each.p_value() for each in apart])
        adjusted = holm(np.maximum(by_images, by_seeds))
        for place, (one, two) in enumerate(asked):
            judged.append(
                Versus(
                    measure=measure,
                    first=one.entry.name,
                    second=two.entry.name,
                    difference=apart[place].mean,
                    interval=apart[place].interval(settings.confidence),
                    p_images=float(by_images[place]),
                    p_seeds=float(by_seeds[place]),
                    p=float(adjusted[place]),
                    detectable=apart[place].detectable(
                        alpha=settings.alpha, power=settings.power, comparisons=len(asked)
                    ),
                    trainings=len(common[place]),
                    different=bool(adjusted[place] < settings.alpha),
                )
            )
    return judged


def _divided(keys: Sequence[Replicate]) -> bool:
    """Whether trainings with the same key share a division of the images, as repeats of a cross-validation do."""
    return len({repeat for repeat, _ in keys}) > 1


def _comparable(one: Row, two: Row, measure: str) -> bool:
    """Both have it on some common trainings; measures of concepts only where both speak of the same ones."""
    keys = [key for key in one.trainings if key in two.trainings]
    there = bool(keys) and all(measure in row.trainings[key] for row in (one, two) for key in row.trainings)
    same = len(one.concept_sets | two.concept_sets) == 1
    return there and (same or not measure.startswith("concept."))


def _chosen(row: Row, keys: Sequence[Any], found: dict[str, dict[str, Spread]]) -> dict[str, Spread]:
    places = [list(row.trainings).index(key) for key in keys]
    return {name: spread.of(places) for name, spread in found[row.entry.name].items()}
