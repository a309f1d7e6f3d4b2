"""The counterfactual test of the IVQ-CBM paper (Appendix J.2, Table 7), for any class, threshold and concepts.

Of the images that the model surely calls a class (probability above a threshold), some concepts take the mean scores of
another class's images, and the head reads again. If the class stands on these concepts, its probability falls. The
paper has no control; here the same number of units, chosen at random among all others, stands beside.
"""

from collections.abc import Sequence

import numpy as np

from conceptlens.core.documents import Part
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.evaluation.interventions.edits import class_mean
from conceptlens.evaluation.interventions.order import influence
from conceptlens.evaluation.interventions.units import Unit
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.bootstrap import Statistic
from conceptlens.stats.estimates import Bootstrap, Estimate, mean_of_column

THRESHOLD = 0.9
DRAWS = 20  # random choices of other units


class Row(Part):
    """A line of Table 7."""

    intervene_on: list[str]
    probability: Estimate
    relative_change: Estimate  # of the mean probability


class Counterfactual(Part):
    """The test of one class."""

    of: str
    instead: str  # whose mean scores the concepts take
    threshold: float
    images: int
    rows: list[Row]  # none, each alone, all together
    random: Row | None  # as many other units, chosen at random


def counterfactual(
    readout: Readout,
    units: list[Unit],
    of: str,
    bootstrap: Bootstrap,
    *,
    on: Sequence[str] | None = None,
    instead: str | None = None,
    threshold: float = THRESHOLD,
    seed: int = 0,
) -> Counterfactual:
    """Table 7.

    Args:
        readout: The images.
        units: What may be intervened on.
        of: The class.
        bootstrap: How intervals are made.
        on: Names of the units; by default the two that move this class's images most.
        instead: The class whose mean scores are put in; all other classes by default.
        threshold: Images with a larger probability of the class are looked at.
        seed: Of the random choices.
    """
    if not 0 <= threshold < 1:
        raise UserError(f"--threshold: expected a probability from 0 to below 1, found {threshold:g}.")
    place = _class(readout, of)
    chance = readout.probabilities(readout.logits(readout.bottleneck))[:, place]
    rows = np.flatnonzero(chance > threshold)
    others = (
        [each for each in range(len(readout.classes)) if each != place]
        if instead is None
        else [_class(readout, instead)]
    )
    result = Counterfactual(
        of=of, instead=instead or "all other classes", threshold=threshold, images=len(rows), rows=[], random=None
    )
    if not len(rows):
        return result
    chosen = _chosen(readout, units, on, rows)
    target, bottleneck = class_mean(readout, others), readout.bottleneck[rows]

    def after(places: Sequence[int]) -> Floats:
        edited = bottleneck.copy()
        columns = [column for each in places for column in units[each].columns]
        edited[:, columns] = target[columns]
        return readout.probabilities(readout.logits(edited, rows))[:, place]

    own = Bootstrap([readout.units[row] for row in rows], bootstrap.resamples, bootstrap.confidence, bootstrap.seed)
    before = chance[rows]

    def row(places: Sequence[int], value: Floats) -> Row:
        found = own.of({"mean": mean_of_column(value), "change": _relative(value, before)})
        names = [units[each].name for each in places]
        return Row(intervene_on=names, probability=found["mean"], relative_change=found["change"])

    tried = [[], *([each] for each in chosen), *([chosen] if len(chosen) > 1 else [])]
    result.rows = [row(places, after(places)) for places in tried]
    taken = {column for each in chosen for column in units[each].columns}
    rest = [place for place, unit in enumerate(units) if not taken & set(unit.columns)]
    if len(rest) >= len(chosen):
        generator = np.random.default_rng(seed)
        drawn = [generator.choice(rest, len(chosen), replace=False).tolist() for _ in range(DRAWS)]
        result.random = row([], np.mean([after(places) for places in drawn], axis=0))
    return result


def _relative(value: Floats, before: Floats) -> Statistic:
    after, start = mean_of_column(value), mean_of_column(before)
    return lambda weights: after(weights) / start(weights) - 1


def _class(readout: Readout, name: str) -> int:
    if name not in readout.classes:
        raise unknown_name("class", name, readout.classes)
    return readout.classes.index(name)


def _chosen(readout: Readout, units: list[Unit], on: Sequence[str] | None, rows: Indices) -> list[int]:
    names = [unit.name for unit in units]
    if on is None:
        strength = influence(readout, units, readout.bottleneck[rows], rows).mean(0)
        return [int(each) for each in np.argsort(-strength, kind="stable")[:2]]
    for name in on:
        if name not in names:
            raise unknown_name("unit to intervene on", name, names)
    return list(dict.fromkeys(names.index(name) for name in on))
