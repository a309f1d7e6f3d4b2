"""Subgroup performance: accuracy, concept accuracy and calibration of every subgroup against all other images.

A difference between a subgroup and the rest is tested by permuting outcomes among patients (`block_permutation`). The
p-values of all columns, subgroups and measures are corrected together by Holm's method, because some of many subgroups
look worse by chance. A second test compares a subgroup with what its classes lead one to expect, because a subgroup may
only have the harder classes. Where a difference is not significant, the smallest difference that four tests in five
would detect is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from conceptlens.core.documents import Part
from conceptlens.evaluation.subgroups.metadata import Column
from conceptlens.evaluation.subgroups.outcomes import Floats, Outcomes
from conceptlens.stats.block_permutation import BlockPermutation
from conceptlens.stats.bootstrap import Statistic
from conceptlens.stats.estimates import Bootstrap, Estimate, mean_of_column
from conceptlens.stats.paired_permutation import holm

FEW = 10  # units that a group, and its rest, must have to be tested
LEVEL = 0.05
POWER = 0.8
FEWEST, MOST = 1999, 9999  # permutations; so many that Holm's correction leaves room below the level


class GroupMeasure(Part):
    """One measure in one group."""

    measure: str
    value: Estimate
    difference: Estimate  # to the rest
    p: float | None  # of that difference, corrected for all comparisons; None: too few to test
    beyond_classes: float | None  # what is left of it beyond the group's classes
    p_beyond_classes: float | None  # corrected likewise
    detectable: float | None  # the difference that four tests in five would find


class GroupResult(Part):
    """One group of one column."""

    column: str
    group: str
    images: int
    units: int
    measures: list[GroupMeasure]

    def measure(self, name: str) -> GroupMeasure | None:
        return next((each for each in self.measures if each.measure == name), None)


@dataclass
class _Question:
    """A group and a measure that are tested."""

    column: Column
    group: int
    measure: str
    observed: float
    p: float
    spread: float
    beyond: float | None
    p_beyond: float | None


def judge_groups(
    outcomes: Outcomes,
    columns: Sequence[Column],
    bootstrap: Bootstrap,
    *,
    permutations: int | None = None,
    seed: int = 0,
) -> tuple[list[GroupResult], int]:
    """Every group of every column, and the number of comparisons that p-values are corrected for."""
    measures = {name: column for name, column in outcomes.columns.items() if not np.isnan(column).all()}
    if permutations is None:
        most = len(measures) * sum(len(column.groups) for column in columns)
        permutations = min(MOST, max(FEWEST, round(2 * most / LEVEL)))
    asked = [
        question
        for column in columns
        for question in _test_column(outcomes, column, measures, permutations=permutations, seed=seed)
    ]
    corrected = holm(np.array([each.p for each in asked]))
    tested = [each for each in asked if each.p_beyond is not None]
    beyond = holm(np.array([each.p_beyond for each in tested], dtype=np.float64))
    reach = float(norm.isf(LEVEL / (2 * max(len(asked), 1))) + norm.isf(1 - POWER))
    found: dict[tuple[str, int, str], tuple[_Question, float, float | None]] = {}
    for each, p in zip(asked, corrected.tolist(), strict=True):
        found[each.column.name, each.group, each.measure] = (each, p, None)
    for each, p in zip(tested, beyond.tolist(), strict=True):
        first = found[each.column.name, each.group, each.measure]
        found[each.column.name, each.group, each.measure] = (*first[:2], p)
    estimates = bootstrap.of(_statistics(columns, measures))
    results = []
    for column in columns:
        for group, name in enumerate(column.groups):
            inside = column.member == group
            rows = []
            for measure in measures:
                question, p, p_beyond = found.get((column.name, group, measure), (None, None, None))
                if question is None and len(column.groups) == 2:  # the other side of the same question
                    question, p, p_beyond = found.get((column.name, 1 - group, measure), (None, None, None))
                rows.append(
                    GroupMeasure(
                        measure=measure,
                        value=estimates[f"{column.name}/{group}/{measure}"],
                        difference=estimates[f"{column.name}/{group}/{measure}/rest"],
                        p=p,
                        beyond_classes=_beyond(outcomes, measures[measure], inside),
                        p_beyond_classes=p_beyond,
                        detectable=None if question is None else reach * question.spread,
                    )
                )
            units = len({outcomes.units[place] for place in np.flatnonzero(inside).tolist()})
            results.append(
                GroupResult(column=column.name, group=name, images=int(inside.sum()), units=units, measures=rows)
            )
    return results, len(asked)


def _statistics(columns: Sequence[Column], measures: dict[str, Floats]) -> dict[str, Statistic]:
    """Means in groups, and differences to the rest, as functions of image weights."""
    made: dict[str, Statistic] = {}
    for column in columns:
        for group in range(len(column.groups)):
            for name, values in measures.items():
                inside = mean_of_column(np.where(column.member == group, values, np.nan))
                rest = mean_of_column(np.where((column.member >= 0) & (column.member != group), values, np.nan))
                made[f"{column.name}/{group}/{name}"] = inside
                made[f"{column.name}/{group}/{name}/rest"] = _minus(inside, rest)
    return made


def _minus(first: Statistic, second: Statistic) -> Statistic:
    return lambda weights: first(weights) - second(weights)


def class_residuals(values: Floats, classes: npt.NDArray[np.int64]) -> Floats:
    """Values (N,) less the mean of their class; NaN stays."""
    residuals = np.full(len(values), np.nan)
    for each in np.unique(classes):
        members = (classes == each) & ~np.isnan(values)
        if members.any():
            residuals[members] = values[members] - values[members].mean()
    return residuals


def _beyond(outcomes: Outcomes, values: Floats, inside: npt.NDArray[np.bool_]) -> float | None:
    """The group's mean less what its classes lead one to expect."""
    rows = class_residuals(values, outcomes.classes)[inside]
    return float(np.nanmean(rows)) if (~np.isnan(rows)).any() else None


def _test_column(
    outcomes: Outcomes, column: Column, measures: dict[str, Floats], *, permutations: int, seed: int
) -> list[_Question]:
    """The questions of one column with their plain p-values. Of two groups, one question answers both."""
    rows = np.flatnonzero(column.member >= 0)
    member, units = column.member[rows], [outcomes.units[row] for row in rows.tolist()]
    unit_number = np.unique(units, return_inverse=True)[1].reshape(-1)
    groups = []
    for group in range(len(column.groups) if len(column.groups) > 2 else 1):
        sides = [len(np.unique(unit_number[mark])) for mark in (member == group, member != group)]
        if min(sides) >= FEW:
            groups.append(group)
    exchange = BlockPermutation(units)  # of patients with equally many images: without them nothing can be tested
    if not groups or exchange.exchangeable < len(rows) / 2:
        return []
    inside = (member[:, None] == np.array(groups)).astype(np.float64)  # (n, G)
    classes = outcomes.classes[rows]
    plain = np.stack([values[rows] for values in measures.values()], axis=1)  # (n, M)
    within = np.stack([class_residuals(values, outcomes.classes)[rows] for values in measures.values()], axis=1)
    p, observed, spread = _permute(inside, plain, exchange, permutations, seed)
    by_class = BlockPermutation(units, classes)
    several = len(np.unique(classes)) > 1 and by_class.exchangeable >= len(rows) / 2
    p_within = _permute(inside, within, by_class, permutations, seed + 1)[0] if several else None
    return [
        _Question(
            column,
            group,
            measure,
            float(observed[g, m]),
            float(p[g, m]),
            float(spread[g, m]),
            None,
            None if p_within is None else float(p_within[g, m]),
        )
        for g, group in enumerate(groups)
        for m, measure in enumerate(measures)
        if np.isfinite(observed[g, m])
    ]


def _permute(
    inside: Floats, values: Floats, exchange: BlockPermutation, permutations: int, seed: int
) -> tuple[Floats, Floats, Floats]:
    """Two-sided p-values (G, M) of differences between groups (n, G) and their rest in values (n, M).

    Also the differences themselves, and the standard deviation that chance gives them.
    """
    known = ~np.isnan(values)
    both = np.concatenate([np.where(known, values, 0.0), known.astype(np.float64)], axis=1)  # (n, 2M)
    observed = _differences(inside, both)
    slack = 1e-9 * (1 + np.abs(observed))
    generator = np.random.default_rng([seed, 5])
    reached, total, squares = (np.zeros_like(observed) for _ in range(3))
    for _ in range(permutations):
        drawn = _differences(inside, both[exchange.draw(generator)])
        drawn = np.where(np.isfinite(drawn), drawn, 0.0)
        reached += np.abs(drawn) >= np.abs(observed) - slack
        total += drawn
        squares += drawn**2
    spread = np.sqrt(np.maximum(squares / permutations - (total / permutations) ** 2, 0.0))
    return (reached + 1) / (permutations + 1), observed, spread


def _differences(inside: Floats, both: Floats) -> Floats:
    """Mean within groups less mean of the rest, (G, M), of sums and counts (n, 2M)."""
    within, everything = inside.T @ both, both.sum(0)
    half = both.shape[1] // 2
    rest = everything - within
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(within[:, :half] / within[:, half:] - rest[:, :half] / rest[:, half:])
