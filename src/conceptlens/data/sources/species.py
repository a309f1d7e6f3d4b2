"""Which species a creature of `shapes` belongs to: the one whose portrait it resembles most.

A species scores a group's weight for every feature that agrees with its portrait, plus its head start. The score is
linear in the concepts, so a linear head can decide as the rule does; all 432 combinations of features have a clear
winner, the classes are of similar size, and every class has creatures with and without any given feature.
"""

from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet

RULE = {"head colour": 12, "body shape": 12, "body pattern": 8, "tail shape": 6, "leg colour": 12}  # group → weight
PORTRAITS = {
    "dax": ("blue", "square", "plain", "forked", "green"),
    "fep": ("green", "round", "striped", "pointed", "yellow"),
    "blick": ("red", "square", "dotted", "pointed", "blue"),
    "toma": ("yellow", "round", "striped", "round", "red"),
    "wug": ("green", "square", "striped", "round", "green"),
    "zib": ("yellow", "square", "striped", "forked", "blue"),
}
HEAD_START = {"dax": 1, "fep": 0, "blick": 2, "toma": 1, "wug": 2, "zib": 3}  # leaves no ties and evens the classes out


def scores(concepts: ConceptSet) -> npt.NDArray[np.int64]:
    """What every class scores for every combination of values: a dimension for each group of the rule, then (C,)."""
    groups = [concepts.group(name) for name in RULE]
    table = np.zeros([*(len(group.values) for group in groups), len(concepts.classes)], dtype=np.int64)
    for position, name in enumerate(concepts.classes):
        table[..., position] += HEAD_START[name]
        for axis, (group, value, weight) in enumerate(zip(groups, PORTRAITS[name], RULE.values(), strict=True)):
            np.moveaxis(table, axis, 0)[group.values.index(value), ..., position] += weight
    return table


def classify(concepts: ConceptSet, features: Sequence[npt.NDArray[np.integer]]) -> npt.NDArray[np.int64]:
    """The class (N,) of creatures whose features are value numbers, an array (N,) for each group of the rule."""
    winner: npt.NDArray[np.int64] = scores(concepts).argmax(axis=-1)[tuple(features)]
    return winner


def ceiling(concepts: ConceptSet, *, label_noise: float, unknown: float, named: Collection[str]) -> float:
    """The best accuracy that any reader of the reported labels can reach, exactly.

    That is the probability of the likeliest class, summed over all labels that can be reported. Features are uniform
    and independent, labels are replaced by another value or hidden at given rates; groups not `named` are never seen.
    """
    winner = scores(concepts).argmax(axis=-1)
    joint = (winner[..., None] == np.arange(len(concepts.classes))) / winner.size
    for axis, group in enumerate(RULE):
        k = winner.shape[axis]
        hidden = unknown if group in named else 1.0
        seen = np.full(
            (k, k + 1), (1 - hidden) * label_noise / (k - 1)
        )  # true value × reported value, the last: unknown
        np.fill_diagonal(seen, (1 - hidden) * (1 - label_noise))
        seen[:, k] = hidden
        joint = np.moveaxis(np.tensordot(joint, seen, axes=(axis, 0)), -1, axis)
    return float(joint.max(axis=-1).sum())
