"""Accuracy against the number of corrected units: what a person's time is worth, and what a wrong word costs.

A curve starts at the model's own accuracy and ends with every known concept corrected. Its area is the mean accuracy
over the steps (trapezoids), so that 1 is perfect from the start; `gain` is the area above the starting point. The label
→ class ceiling is what a logistic regression makes of the true concepts alone.
"""

from dataclasses import dataclass
from typing import get_args

import numpy as np

from conceptlens.core.documents import Part
from conceptlens.core.errors import unknown_name
from conceptlens.evaluation.interventions import order as orders
from conceptlens.evaluation.interventions.edits import to_truth, wrong_labels
from conceptlens.evaluation.interventions.order import Policy
from conceptlens.evaluation.interventions.units import Unit, membership
from conceptlens.evaluation.interventions.value_map import ValueMap
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.estimates import Bootstrap, Estimate

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


def follow(readout: Readout, replaced: Floats, units: list[Unit], order: Indices) -> Floats:
    """Hits (U + 1, N) as unit after unit is replaced, in each image's own order (N, U)."""
    members = membership(units, len(readout.concepts))
    bottleneck = readout.bottleneck.copy()
    hits = [readout.hits(readout.logits(bottleneck))]
    for step in range(len(units)):
        bottleneck = np.where(members[order[:, step]], replaced, bottleneck)
        hits.append(readout.hits(readout.logits(bottleneck)))
    return np.stack(hits)


def follow_policy(readout: Readout, maps: ValueMap, units: list[Unit], policy: str, *, seed: int = 0) -> Followed:
    """Correct the truth in, and wrong answers, in the order of a policy."""
    if policy not in get_args(Policy):
        raise unknown_name("order", policy, get_args(Policy))
    right, wrong = to_truth(readout, maps), maps.scores(wrong_labels(readout, seed=seed), readout.bottleneck)
    note: str | None = None
    if policy == "chance":
        drawn = [orders.by_chance(len(readout), len(units), seed=seed + draw) for draw in range(DRAWS)]
        both = [[follow(readout, replaced, units, order) for order in drawn] for replaced in (right, wrong)]
        return Followed(np.mean(both[0], axis=0), np.mean(both[1], axis=0), f"mean over {DRAWS} random orders")
    if policy == "influence":
        order = orders.descending(orders.influence(readout, units, readout.bottleneck))
    else:
        probabilities = maps.probabilities(readout.concept_probabilities, readout.concepts)
        if policy == "uncertainty":
            order = orders.descending(orders.uncertainty(units, probabilities))
        else:
            again = orders.affordable(readout, units)
            order = orders.by_expected_gain(readout, maps, units, probabilities, right, again=again)
            note = f"gains computed {'after every correction' if again else 'once, the concepts being many'}"
    return Followed(follow(readout, right, units, order), follow(readout, wrong, units, order), note)


def area(hits: Floats) -> Floats:
    """Mean over the steps by trapezoids, (U + 1, N) → (N,)."""
    return np.asarray(np.trapezoid(hits, axis=0) / max(len(hits) - 1, 1))


def summarize(policy: str, followed: Followed, bootstrap: Bootstrap) -> Curve:
    """Means over images, with intervals."""
    right, wrong = followed.right, followed.wrong
    columns = {f"right {step}": row for step, row in enumerate(right)}
    columns |= {f"wrong {step}": row for step, row in enumerate(wrong)}
    columns |= {"area": area(right), "gain": area(right) - right[0], "wrong area": area(wrong)}
    found = bootstrap.means(columns)
    return Curve(
        policy=policy,
        points=[found[f"right {step}"] for step in range(len(right))],
        area=found["area"],
        gain=found["gain"],
        wrong=[found[f"wrong {step}"] for step in range(len(wrong))],
        wrong_area=found["wrong area"],
        note=followed.note,
    )


def each_alone(
    readout: Readout, maps: ValueMap, units: list[Unit], bootstrap: Bootstrap, *, seed: int = 0
) -> list[Alone]:
    """What correcting, or spoiling, one unit and no other does to accuracy."""
    sides = {
        "right": to_truth(readout, maps),
        "wrong": maps.scores(wrong_labels(readout, seed=seed), readout.bottleneck),
    }
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
