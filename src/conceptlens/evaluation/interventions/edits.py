"""Set concepts in what the class head reads: by value, by probability, by a class's mean score, to the truth, or wrong.

Every function takes and returns a bottleneck (N, K) and leaves its input alone. The class mean is the intervention of
the IVQ-CBM paper's Appendix J.2.
"""

from collections.abc import Sequence

import numpy as np
import torch

from conceptlens.concepts import UNKNOWN
from conceptlens.core.errors import UserError
from conceptlens.evaluation.interventions.units import questions
from conceptlens.evaluation.interventions.value_map import Labels, ValueMap
from conceptlens.nn.heads.bottleneck import EPSILON, log_probability
from conceptlens.runs.readout import Floats, Readout

Columns = Sequence[int]


def set_value(bottleneck: Floats, columns: Columns, values: Floats | float) -> Floats:
    """These concepts at these scores, in the space of the bottleneck."""
    edited = bottleneck.copy()
    edited[:, list(columns)] = values
    return edited


def set_probability(readout: Readout, maps: ValueMap, bottleneck: Floats, column: int, probability: float) -> Floats:
    """One concept at a probability. Where the bottleneck holds probabilities, or their logarithms, its rivals in an
    exclusive group share the rest in the proportions they had."""
    if not 0 <= probability <= 1:
        raise UserError(f"A probability lies between 0 and 1, found {probability:g}.")
    if readout.space not in ("probability", "log-probability"):
        return set_value(bottleneck, [column], maps.score_at(probability)[:, [column]])
    group, logarithm = readout.concepts.groups[readout.concepts.group_of[column]], readout.space == "log-probability"
    columns, shares = [column], np.full((len(bottleneck), 1), probability)
    if group.kind == "exclusive":
        columns = list(range(group.concepts.start, group.concepts.stop))
        own = bottleneck[:, columns]
        shares = np.maximum(np.exp(own) - EPSILON, 0) if logarithm else own.copy()
        shares += 1e-12
        chosen = np.array(columns) == column
        shares[:, ~chosen] *= (1 - probability) / shares[:, ~chosen].sum(1, keepdims=True)
        shares[:, chosen] = probability
    if logarithm:
        exclusive = torch.full((len(columns),), group.kind == "exclusive")
        shares = log_probability(torch.from_numpy(shares), exclusive).numpy()
    return set_value(bottleneck, columns, shares)


def class_mean(readout: Readout, classes: Sequence[int]) -> Floats:
    """The mean scores (K,) of the images of some classes."""
    if readout.task == "multilabel":
        chosen = (readout.labels[:, list(classes)] == 1).any(1)
    else:
        chosen = np.isin(readout.labels, list(classes))
    if not chosen.any():
        names = ", ".join(readout.classes[each] for each in classes)
        raise UserError(f"No image of {names} is among these, so it has no mean scores. Choose another class.")
    mean: Floats = readout.bottleneck[chosen].mean(0)
    return mean


def to_truth(readout: Readout, maps: ValueMap) -> Floats:
    """Every concept as a person labeled it; one that nobody labeled stays."""
    return maps.write(readout, readout.truth)


def confirmed_labels(readout: Readout) -> Labels:
    """The model's own answers (N, K) wherever the truth is known: told these, it learns nothing new."""
    return np.where(readout.truth == UNKNOWN, np.int8(UNKNOWN), readout.read_labels)


def wrong_labels(readout: Readout, *, seed: int = 0) -> Labels:
    """Labels (N, K) that are all wrong: another value of an exclusive group at random, the opposite of a yes or no."""
    generator = np.random.default_rng(seed)
    truth = readout.truth
    wrong = np.where(truth == UNKNOWN, UNKNOWN, 1 - truth).astype(np.int8)
    for asked in questions(readout.concepts):
        for question in asked:
            columns = list(question.columns)
            if len(columns) == 1:
                continue
            held = truth[:, columns] == 1
            other = (held.argmax(1) + generator.integers(1, len(columns), size=len(held))) % len(columns)
            known = held.sum(1) == 1
            wrong[:, columns] = np.where(known[:, None], np.arange(len(columns)) == other[:, None], UNKNOWN)
    return wrong
