"""In which order concepts are corrected: by chance, uncertainty, influence on the decision, or expected gain.

Influence: how far the class logits move if a unit's scores were the average ones. Expected gain: how much the entropy
of the class falls on average over the answers that the image may have, each with its calibrated probability. Orders are
(N, U): for each image the units, first to last. No order looks at the truth of what is not yet corrected.
"""

from typing import Literal

import numpy as np
from scipy.special import xlog1py, xlogy

from conceptlens.evaluation.interventions.units import Question, Unit, make_units, membership
from conceptlens.evaluation.interventions.value_map import ValueMap
from conceptlens.runs.readout import Floats, Indices, Readout

Policy = Literal["chance", "uncertainty", "influence", "expected gain"]
POLICIES: tuple[Policy, ...] = ("chance", "uncertainty", "influence", "expected gain")
WORK = 2e10  # multiplications above which expected gain is computed once and not after every correction


def by_chance(n: int, units: int, *, seed: int = 0) -> Indices:
    """Every image its own random order."""
    return np.asarray(np.random.default_rng(seed).random((n, units)).argsort(1))


def descending(values: Floats) -> Indices:
    """Largest first; of equals, the earlier unit."""
    return np.asarray(np.argsort(-values, axis=1, kind="stable"))


def answer_probabilities(question: Question, probabilities: Floats) -> Floats:
    """(N, A) for calibrated probabilities (N, K)."""
    part = probabilities[:, list(question.columns)]
    if part.shape[1] == 1:
        return np.concatenate([1 - part, part], axis=1)
    return np.asarray(part / part.sum(1, keepdims=True))


def uncertainty(units: list[Unit], probabilities: Floats) -> Floats:
    """(N, U): the mean entropy of a unit's questions, in nats."""
    columns = []
    for unit in units:
        shares = [answer_probabilities(question, probabilities) for question in unit.questions]
        columns.append(np.mean([-xlogy(share, share).sum(1) for share in shares], axis=0))
    return np.stack(columns, axis=1) if columns else np.zeros((len(probabilities), 0))


def influence(readout: Readout, units: list[Unit], bottleneck: Floats, rows: Indices | slice = slice(None)) -> Floats:
    """(N, U): mean absolute change of the logits, less what is common to all classes, with a unit at its average."""
    now, average = readout.logits(bottleneck, rows), readout.bottleneck.mean(0)
    columns = []
    for unit in units:
        edited = bottleneck.copy()
        edited[:, unit.columns] = average[unit.columns]
        change = now - readout.logits(edited, rows)
        if readout.task != "multilabel":
            change -= change.mean(1, keepdims=True)
        columns.append(np.abs(change).mean(1))
    return np.stack(columns, axis=1)


def mean_influence(readout: Readout) -> Floats:
    """(K,): the influence of each concept, mean over images."""
    return np.asarray(influence(readout, make_units(readout.concepts, "concepts"), readout.bottleneck).mean(0))


def entropy(readout: Readout, logits: Floats) -> Floats:
    """Of the class (N,), in nats; summed over the labels of a multi-label task."""
    p = readout.probabilities(logits)
    if readout.task == "multilabel":
        return np.asarray(-(xlogy(p, p) + xlog1py(1 - p, -p)).sum(1))
    return np.asarray(-xlogy(p, p).sum(1))


def expected_gain(
    readout: Readout,
    maps: ValueMap,
    units: list[Unit],
    probabilities: Floats,
    bottleneck: Floats,
    rows: Indices | slice = slice(None),
) -> Floats:
    """(N, U): the entropy that a unit's answer takes away on average; a unit of several questions gets their sum."""
    before = entropy(readout, readout.logits(bottleneck, rows))
    gains = np.zeros((len(bottleneck), len(units)))
    for place, unit in enumerate(units):
        for question in unit.questions:
            columns = list(question.columns)
            shares = answer_probabilities(question, probabilities)
            own, read = readout.bottleneck[rows][:, columns], readout.read_labels[rows][:, columns]
            gains[:, place] += before
            for answer, share in zip(question.answers, shares.T, strict=True):
                edited = bottleneck.copy()
                edited[:, columns] = maps.answer(columns, answer, own, read)
                gains[:, place] -= share * entropy(readout, readout.logits(edited, rows))
    return gains


def by_expected_gain(
    readout: Readout, maps: ValueMap, units: list[Unit], probabilities: Floats, corrected: Floats, *, again: bool
) -> Indices:
    """Largest expected gain first.

    Args:
        readout: The images.
        maps: What stands for an answer.
        units: What is asked about.
        probabilities: (N, K) calibrated.
        corrected: (N, K) the bottleneck with every concept corrected: what an answer, once asked for, puts in.
        again: Compute the gains anew after every correction, given those made so far.
    """
    if not again:
        return descending(expected_gain(readout, maps, units, probabilities, readout.bottleneck))
    n, members = len(readout), membership(units, len(readout.concepts))
    order = np.empty((n, len(units)), dtype=np.int64)
    asked = np.zeros((n, len(units)), dtype=bool)
    bottleneck, everyone = readout.bottleneck.copy(), np.arange(n)
    for step in range(len(units)):
        gains = expected_gain(readout, maps, units, probabilities, bottleneck)
        best = np.where(asked, -np.inf, gains).argmax(1)
        order[:, step] = best
        asked[everyone, best] = True
        bottleneck = np.where(members[best], corrected, bottleneck)
    return order


def affordable(readout: Readout, units: list[Unit]) -> bool:
    """Whether expected gains can be computed anew after every correction."""
    answers = sum(len(question.answers) for unit in units for question in unit.questions)
    width = readout.bottleneck.shape[1] * len(readout.classes)
    return bool(len(readout) * answers * len(units) * width <= WORK)
