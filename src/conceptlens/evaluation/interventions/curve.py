"""Accuracy against the number of corrected units: what a person's time is worth, and what a wrong word costs.

A curve starts at the model's own accuracy and ends with every known concept corrected. Its area is the mean accuracy
over the steps (trapezoids), so that 1 is perfect from the start; `gain` is the area above the starting point. Three
controls go the same way: the model's own answers confirmed (sham), wrong answers, and a head that reads labels alone,
told the same wrong answers. The label → class ceiling is what that head makes of the true concepts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from pydantic import Field

from conceptlens.core.documents import Part
from conceptlens.core.errors import unknown_name
from conceptlens.evaluation.interventions import order as orders
from conceptlens.evaluation.interventions.edits import confirmed_labels, to_truth, wrong_labels
from conceptlens.evaluation.interventions.order import Policy
from conceptlens.evaluation.interventions.units import Flags, Unit, membership
from conceptlens.evaluation.interventions.value_map import Labels, ValueMap
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.estimates import Bootstrap, Estimate

Table = npt.NDArray[Any]
DRAWS = 5  # random orders that `chance` is averaged over


class Curve(Part):
    """Of one policy."""

    policy: str
    points: list[Estimate]  # accuracy with 0, 1, … units corrected
    area: Estimate
    gain: Estimate  # area above the first point
    wrong: list[Estimate]  # accuracy with 0, 1, … units set to a wrong answer, in the same order
    wrong_area: Estimate
    note: str | None = None
    sham: list[Estimate] = Field(default_factory=list)  # accuracy with 0, 1, … of the model's own answers confirmed
    wrong_labels: list[Estimate] = Field(default_factory=list)  # of a head that reads labels alone, told the same


class Alone(Part):
    """One unit, corrected and spoilt by itself: change of accuracy."""

    unit: str
    corrected: Estimate
    wrong: Estimate


@dataclass(frozen=True)
class Followed:
    """Hits (U + 1, N) of one policy."""

    right: Floats
    wrong: Floats
    note: str | None
    sham: Floats | None = None
    wrong_labels: Floats | None = None


def follow(readout: Readout, replaced: Floats, units: list[Unit], order: Indices) -> Floats:
    """Hits (U + 1, N) as unit after unit is replaced, in each image's own order (N, U)."""
    steps = _one_by_one(readout.bottleneck, replaced, membership(units, len(readout.concepts)), order)
    return np.stack([readout.hits(readout.logits(bottleneck)) for bottleneck in steps])


def _one_by_one(start: Table, replaced: Table, members: Flags, order: Indices) -> Iterator[Table]:
    """A table (N, K) with 0, 1, … units replaced."""
    yield start
    for step in range(order.shape[1]):
        start = np.where(members[order[:, step]], replaced, start)
        yield start


def follow_policy(
    readout: Readout,
    maps: ValueMap,
    units: list[Unit],
    policy: str,
    *,
    label_head: Callable[[Labels], Floats] | None = None,
    seed: int = 0,
) -> Followed:
    """Tell the truth, the model's own answers, and wrong answers, in the order of a policy.

    Args:
        readout: The images.
        maps: How answers are written.
        units: What is told in one go.
        policy: The order.
        label_head: A head that reads labels alone: the reference of wrong answers.
        seed: Of random orders and wrong answers.
    """
    if policy not in get_args(Policy):
        raise unknown_name("order", policy, get_args(Policy))
    lies = wrong_labels(readout, seed=seed)
    right, wrong, sham = (maps.write(readout, told) for told in (readout.truth, lies, confirmed_labels(readout)))
    note: str | None = None
    if policy == "chance":
        drawn = [orders.by_chance(len(readout), len(units), seed=seed + draw) for draw in range(DRAWS)]
        note = f"mean over {DRAWS} random orders"
    elif policy == "influence":
        drawn = [orders.descending(orders.influence(readout, units, readout.bottleneck))]
    else:
        probabilities = maps.probabilities(readout.concept_probabilities, readout.concepts)
        if policy == "uncertainty":
            drawn = [orders.descending(orders.uncertainty(units, probabilities))]
        else:
            again = orders.affordable(readout, units)
            drawn = [orders.by_expected_gain(readout, maps, units, probabilities, right, again=again)]
            note = f"gains computed {'after every correction' if again else 'once, the concepts being many'}"

    def told(replaced: Floats) -> Floats:
        return np.asarray(np.mean([follow(readout, replaced, units, order) for order in drawn], axis=0))

    reference = None
    if label_head is not None:
        steps = _one_by_one(readout.truth, lies, membership(units, len(readout.concepts)), drawn[0])
        reference = np.stack([label_head(labels) for labels in steps])
    return Followed(told(right), told(wrong), note, told(sham), reference)


def area(hits: Floats) -> Floats:
    """Mean over the steps by trapezoids, (U + 1, N) → (N,)."""
    return np.asarray(np.trapezoid(hits, axis=0) / max(len(hits) - 1, 1))


def summarize(policy: str, followed: Followed, bootstrap: Bootstrap) -> Curve:
    """Means over images, with intervals."""
    right, wrong = followed.right, followed.wrong
    lines = {"right": right, "wrong": wrong, "sham": followed.sham, "labels": followed.wrong_labels}
    columns = {
        f"{name} {step}": row for name, rows in lines.items() if rows is not None for step, row in enumerate(rows)
    }
    columns |= {"area": area(right), "gain": area(right) - right[0], "wrong area": area(wrong)}
    found = bootstrap.means(columns)

    def line(name: str) -> list[Estimate]:
        return [found[f"{name} {step}"] for step in range(len(right)) if f"{name} {step}" in found]

    return Curve(
        policy=policy,
        points=line("right"),
        area=found["area"],
        gain=found["gain"],
        wrong=line("wrong"),
        wrong_area=found["wrong area"],
        note=followed.note,
        sham=line("sham"),
        wrong_labels=line("labels"),
    )


def each_alone(
    readout: Readout, maps: ValueMap, units: list[Unit], bootstrap: Bootstrap, *, seed: int = 0
) -> list[Alone]:
    """What correcting, or spoiling, one unit and no other does to accuracy."""
    sides = {"right": to_truth(readout, maps), "wrong": maps.write(readout, wrong_labels(readout, seed=seed))}
    start = readout.hits(readout.logits(readout.bottleneck))
    columns: dict[str, Floats] = {}
    for place, unit in enumerate(units):
        for name, replaced in sides.items():
            edited = readout.bottleneck.copy()
            edited[:, unit.columns] = replaced[:, unit.columns]
            columns[f"{name} {place}"] = readout.hits(readout.logits(edited)) - start
    found = bootstrap.means(columns)
    return [
        Alone(unit=unit.name, corrected=found[f"right {place}"], wrong=found[f"wrong {place}"])
        for place, unit in enumerate(units)
    ]
