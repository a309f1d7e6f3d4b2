"""Signs of leakage, each beside the same measure of permuted scores.

Beyond the labels of all concepts: what a probe of the scores knows of the class that a probe of all labels does not.
Permutations by row keep everything but that. Where images with equal labels hardly ever differ in class, there is
nothing to measure.

Beyond its own label: what one concept's score tells of the class among images with the same label of that concept, and
what the head gains from it: its accuracy on scores permuted among images with the same label *and class*, less that on
scores permuted among images with the same label. Both permutations separate the scores of an image, so uncertainty that
its concepts share is no leak; only the first keeps the class in them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from conceptlens.core.progress import Note
from conceptlens.evaluation.leakage import probe
from conceptlens.evaluation.leakage.information import beyond_label
from conceptlens.evaluation.leakage.permuted import (
    ALPHA,
    PERMUTATIONS,
    Chance,
    ConditionalPermutation,
    arrangements,
    chances,
    class_strata,
    middle,
    own_label,
    p_values,
    standardized,
    strata,
)
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.block_permutation import BlockPermutation
from conceptlens.stats.estimates import Bootstrap, Estimate
from conceptlens.stats.weighted import mean_known

DRAWS = 5


@dataclass(frozen=True)
class BeyondAll:
    """Signs beyond the labels of all concepts."""

    accuracy: Chance  # class from soft scores, less from labels
    nats: Chance


@dataclass(frozen=True)
class BeyondOwn:
    """Signs beyond a concept's own label."""

    used: Floats  # (N,): what the head gains
    head: Chance
    concepts: list[Chance]  # of each concept; adjusted for all of them
    mean: Chance  # of the mean over concepts; its p-values are those of the concept that tells most


@dataclass(frozen=True)
class Signs:
    """All signs; None where they were not looked for."""

    everything: BeyondAll | None = None
    own: BeyondOwn | None = None

    @property
    def level(self) -> float:
        """At which a sign is certain: false alarms are shared between the two kinds."""
        return ALPHA / max(sum(each is not None for each in (self.everything, self.own)), 1)

    @property
    def leaks(self) -> bool | None:
        """Whether any sign is certain."""
        found = [self.everything.accuracy, self.everything.nats] if self.everything else []
        found += [self.own.head, self.own.mean] if self.own else []
        return any(each.adjusted <= self.level for each in found) if found else None


def find_signs(
    readout: Readout,
    fold: Indices,
    bootstrap: Bootstrap,
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    note: Note,
) -> Signs:
    """Every sign that these labels leave room for."""
    own = beyond_own(readout, fold, bootstrap, permutations=permutations, seed=seed, note=note)
    if not room(readout):
        return Signs(own=own)
    return Signs(beyond_all(readout, fold, bootstrap, permutations=permutations, seed=seed, note=note), own)


def room(readout: Readout) -> bool:
    """Whether equal labels meet different classes often enough for a verdict beyond all labels."""
    return arrangements(strata(readout.truth), class_strata(readout)) > math.log(4 / ALPHA)


def beyond_all(
    readout: Readout,
    fold: Indices,
    bootstrap: Bootstrap,
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    note: Note,
) -> BeyondAll:
    """What scores carry of the class beyond all labels, beside permutations by row."""
    labels = probe.label_features(readout.truth)
    from_labels, surprise = probe.hits(readout, labels, fold), probe.log_probability(readout, labels, fold)

    def measure(scores: Floats) -> list[Floats]:
        both = np.concatenate([labels, scores], axis=1)
        return [probe.hits(readout, scores, fold) - from_labels, probe.log_probability(readout, both, fold) - surprise]

    exchange, generator = BlockPermutation(readout.units, strata(readout.truth)), np.random.default_rng([seed, 17])
    own = measure(readout.bottleneck)
    rows, means = [[_mean(column) for column in own]], [np.zeros(len(readout)) for _ in own]
    for number in range(permutations):
        if number % 20 == 0:
            note(f"beyond all labels: permutation {number} of {permutations}")
        drawn = measure(readout.bottleneck[exchange.draw(generator)])
        rows.append([_mean(column) for column in drawn])
        means = [mean + column / permutations for mean, column in zip(means, drawn, strict=True)]
    return BeyondAll(*chances(own, means, np.array(rows).T, bootstrap))


def head_use(readout: Readout, *, draws: int = DRAWS, seed: int = 0) -> Callable[[Floats], Floats]:
    """What the class head gains (N,) from the class in scores (N, K) beyond labels, as a function of the scores."""
    alone = replace(readout, rest=np.zeros_like(readout.rest))  # a bypass is no concept's doing
    within_label = ConditionalPermutation(readout)
    within_class = ConditionalPermutation(readout, class_strata(readout))

    def used(scores: Floats) -> Floats:
        draw = np.random.default_rng([seed, 23])
        gains = [
            alone.hits(alone.decide(within_class.draw(scores, draw)))
            - alone.hits(alone.decide(within_label.draw(scores, draw)))
            for _ in range(draws)
        ]
        return np.asarray(np.mean(gains, axis=0))

    return used


def beyond_own(
    readout: Readout,
    fold: Indices,
    bootstrap: Bootstrap,
    *,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
    note: Note,
) -> BeyondOwn:
    """What single scores carry of the class beyond their own label, beside permutations by question."""
    given, within_label = own_label(readout), ConditionalPermutation(readout)
    generator = np.random.default_rng([seed, 19])
    used = head_use(readout, seed=seed)

    def beyond(scores: Floats) -> Floats:
        return beyond_label(scores, readout.truth, given, readout.targets, fold)

    own = [used(readout.bottleneck), beyond(readout.bottleneck)]
    heads, concepts = [_mean(own[0])], [mean_known(own[1].T)]
    means = [np.zeros_like(column) for column in own]
    for number in range(permutations):
        if number % 20 == 0:
            note(f"beyond its own label: permutation {number} of {permutations}")
        scores = within_label.draw(readout.bottleneck, generator)
        drawn = [used(scores), beyond(scores)]
        heads.append(_mean(drawn[0]))
        concepts.append(mean_known(drawn[1].T))
        means = [mean + column / permutations for mean, column in zip(means, drawn, strict=True)]
    values = np.nan_to_num(np.array(concepts).T)  # (K, 1 + P); a concept without labels counts as 0
    z = standardized(values)
    largest = z.max(0)
    each = [
        Chance(
            permuted=middle(values[k, 1:]),
            excess=Estimate(value=float(values[k, 0] - values[k, 1:].mean())),
            p=float(p_values(values[k : k + 1])[0][0]),
            adjusted=float(np.mean(largest >= z[k, 0] - 1e-12)),
        )
        for k in range(len(values))
    ]
    shared, shared_mean = (mean_known(columns) for columns in (own[1], means[1]))
    over = np.stack([heads, largest])
    head, most = chances([own[0], shared], [means[0], shared_mean], over, bootstrap)
    mean = most.model_copy(update={"permuted": middle(values[:, 1:].mean(0))})
    return BeyondOwn(own[0], head, each, mean)


def _mean(column: Floats) -> float:
    known = column[~np.isnan(column)]
    return float(known.mean()) if len(known) else 0.0
