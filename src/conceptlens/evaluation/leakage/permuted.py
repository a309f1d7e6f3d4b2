"""Conditional permutation test of leakage: a run's scores are permuted among images with equal concept labels.

If a bottleneck does not leak, its scores say nothing of the class beyond the labels, and any image could as well have
had the scores of another image with the same labels. A measure of leakage is compared with the same measure of many
permutations: its p-value is the share of them that reach it. This holds for any measure, method and number of images,
and needs no threshold. Images of one patient are exchanged together.

There are two kinds. *By question*: the scores of each concept (of an exclusive group together) are permuted among
images with the same label of that concept; exact where concepts are independent given their labels. *By row*: all
scores of an image are permuted among images with the same labels of all concepts, so that uncertainty which concepts
share is kept; exact, but it needs images with equal labels and different classes.

Several measures are judged together by the smallest of their p-values, whose distribution the permutations give too
(P. Westfall, S. Young: Resampling-based multiple testing, 1993).
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from conceptlens.core.documents import Part
from conceptlens.evaluation.interventions.units import questions
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.block_permutation import BlockPermutation
from conceptlens.stats.estimates import Bootstrap, Estimate

ALPHA = 0.05  # false alarm rate: share of bottlenecks without leakage that may be reported as leaking
PERMUTATIONS = 99
FEWEST = 79  # with two kinds of two measures each, fewer cannot make any of them certain


class Chance(Part):
    """A measure under the null hypothesis of no leakage."""

    permuted: Estimate  # mean of the measure over permutations, and their central 95 %
    excess: Estimate  # the measure less that mean: the leak
    p: float  # share of permutations, the run counted as one, that reach the measure
    adjusted: float  # the same if all measures of its kind are looked at together


def strata(*columns: npt.NDArray[np.integer]) -> Indices:
    """(N,): a number for each combination of labels in some columns, (N,) or (N, n) each."""
    rows = np.concatenate([column.reshape(len(column), -1) for column in columns], axis=1)
    return np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)


def own_label(readout: Readout) -> Indices:
    """(N, K): what a concept's label says: the value of an exclusive group, a yes or no otherwise."""
    found = np.zeros(readout.truth.shape, dtype=np.int64)
    for asked in questions(readout.concepts):
        for question in asked:
            columns = list(question.columns)
            found[:, columns] = strata(readout.truth[:, columns])[:, None]
    return found


def class_strata(readout: Readout) -> Indices:
    """(N,): a number for each class, or for each combination of labels of a multi-label task."""
    return strata(readout.labels)


class ConditionalPermutation:
    """Permutes scores by question, given the concept labels.

    Args:
        readout: Whose labels and units count; its scores do not.
        also: (N,) what an image must have in common, besides the label, with the one whose score it gets.
    """

    def __init__(self, readout: Readout, also: Indices | None = None) -> None:
        more = [] if also is None else [also]
        self._parts = [
            (list(question.columns), BlockPermutation(readout.units, strata(readout.truth[:, question.columns], *more)))
            for asked in questions(readout.concepts)
            for question in asked
        ]

    def draw(self, scores: Floats, generator: np.random.Generator) -> Floats:
        """A permutation (N, K) of these scores."""
        permuted = np.empty_like(scores)
        for columns, exchange in self._parts:
            permuted[:, columns] = scores[exchange.draw(generator)][:, columns]
        return permuted


def arrangements(cells: Indices, labels: Indices) -> float:
    """The logarithm of the number of ways to assign classes (N,) to the images of each cell (N,)."""
    total = 0.0
    for cell in np.unique(cells):
        counts = np.unique(labels[cells == cell], return_counts=True)[1]
        total += float(gammaln(counts.sum() + 1) - gammaln(counts + 1).sum())
    return total


def p_values(measures: Floats) -> tuple[Floats, Floats]:
    """p-values (S,) of S measures of a run and its permutations (S, 1 + P), each alone and all together."""
    with np.errstate(invalid="ignore"):
        shares = np.mean(measures[:, None, :] >= measures[:, :, None] - 1e-12, axis=2)
    smallest = shares.min(0)
    return shares[:, 0], np.mean(smallest[None] <= shares[:, :1] + 1e-12, axis=1)


def standardized(measures: Floats) -> Floats:
    """Measures (S, 1 + P) in standard deviations of their own distribution, so that they can be compared."""
    spread = measures.std(1, keepdims=True)
    z: Floats = np.where(spread > 1e-12, (measures - measures.mean(1, keepdims=True)) / np.maximum(spread, 1e-12), 0.0)
    return z


def chances(columns: Sequence[Floats], means: Sequence[Floats], measures: Floats, bootstrap: Bootstrap) -> list[Chance]:
    """Of several measures of one kind.

    Args:
        columns: (N,) each: the measure of each image of the run.
        means: (N,) each: the same, mean over permutations.
        measures: (S, 1 + P) of the run and its permutations.
        bootstrap: For intervals of the excess.
    """
    alone, together = p_values(measures)
    found = bootstrap.means(
        {str(place): column - mean for place, (column, mean) in enumerate(zip(columns, means, strict=True))}
    )
    return [
        Chance(
            permuted=middle(row[1:]), excess=found[str(place)], p=float(alone[place]), adjusted=float(together[place])
        )
        for place, row in enumerate(measures)
    ]


def middle(values: Floats) -> Estimate:
    """The mean of some values and their central 95 %."""
    low, high = np.quantile(values, [0.025, 0.975])
    return Estimate(value=float(values.mean()), interval=(float(low), float(high)))
