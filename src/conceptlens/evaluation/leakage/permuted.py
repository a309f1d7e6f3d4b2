"""Twins of a run: its own scores dealt anew among images with equal labels, so that they say their labels and no more.

A bottleneck that does not leak cannot be told from its twins: given the labels, its scores know nothing of the class,
and any image could as well have had the scores of another with the same labels. So a measure of leakage is set beside
the same measure of many twins: the share of them that reach it is its p-value, whatever the measure, the method and the
number of images, and no margin has to be guessed. Images of one patient are exchanged together.

There are two kinds. *By question*: each concept's scores (an exclusive group's together) are dealt among images with
the same label of that concept; exact where concepts are independent given their labels. *By row*: all scores of an
image are dealt among images with the same labels of all concepts, so that doubt which several concepts share stays;
exact, but it needs images with equal labels and different classes.

Several measures are judged together by the smallest of their p-values, whose own distribution the twins give as well
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

ALPHA = 0.05  # share of clean bottlenecks that may be accused
TWINS = 99
FEWEST = 79  # with two kinds of two measures each, fewer cannot make any of them certain


class Chance(Part):
    """What chance makes of a measure."""

    twins: Estimate  # the mean over twins, and where the middle 95 % of them lie
    excess: Estimate  # the measure less that mean: the leak
    p: float  # share of twins, the run counted among them, that reach the measure
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


class Dealer:
    """Deals scores by question.

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
        """A twin (N, K) of these scores."""
        dealt = np.empty_like(scores)
        for columns, exchange in self._parts:
            dealt[:, columns] = scores[exchange.draw(generator)][:, columns]
        return dealt


def arrangements(cells: Indices, labels: Indices) -> float:
    """The logarithm of how many ways there are to deal classes (N,) among the images of each cell (N,)."""
    total = 0.0
    for cell in np.unique(cells):
        counts = np.unique(labels[cells == cell], return_counts=True)[1]
        total += float(gammaln(counts.sum() + 1) - gammaln(counts + 1).sum())
    return total


def p_values(measures: Floats) -> tuple[Floats, Floats]:
    """p-values (S,) of S measures of a run and its twins (S, 1 + twins), each alone and all together."""
    with np.errstate(invalid="ignore"):
        shares = np.mean(measures[:, None, :] >= measures[:, :, None] - 1e-12, axis=2)
    smallest = shares.min(0)
    return shares[:, 0], np.mean(smallest[None] <= shares[:, :1] + 1e-12, axis=1)


def standardized(measures: Floats) -> Floats:
    """Measures (S, 1 + twins) in deviations of their own distribution, so that the largest can be asked for."""
    spread = measures.std(1, keepdims=True)
    z: Floats = np.where(spread > 1e-12, (measures - measures.mean(1, keepdims=True)) / np.maximum(spread, 1e-12), 0.0)
    return z


def chances(columns: Sequence[Floats], means: Sequence[Floats], measures: Floats, bootstrap: Bootstrap) -> list[Chance]:
    """Of several measures of one kind.

    Args:
        columns: (N,) each: the measure of each image of the run.
        means: (N,) each: the same, mean over twins.
        measures: (S, 1 + twins) of the run and its twins.
        bootstrap: For intervals of the excess.
    """
    alone, together = p_values(measures)
    found = bootstrap.means(
        {str(place): column - mean for place, (column, mean) in enumerate(zip(columns, means, strict=True))}
    )
    return [
        Chance(twins=middle(row[1:]), excess=found[str(place)], p=float(alone[place]), adjusted=float(together[place]))
        for place, row in enumerate(measures)
    ]


def middle(values: Floats) -> Estimate:
    """The mean of some values and where the middle 95 % of them lie."""
    low, high = np.quantile(values, [0.025, 0.975])
    return Estimate(value=float(values.mean()), interval=(float(low), float(high)))
