"""A measure as a mean of questions put to the same N images, in the two forms that a comparison needs.

Under many image weights at once, for the bootstrap (`value`); and as a sum over images of what each adds to the
difference between two methods (`against`), for the permutation test. That the difference *is* such a sum, also after
any swap, is plain for shares of right answers. It holds for the AUC too: let x be one method's scores and y the
other's, and let ε_i = −1 swap x_i and y_i, +1 leave them. Of a pair of a positive i and a negative j, let
K(a, b) = 1 if a > b, ½ if a = b. Written out over the four ways to swap the pair, the difference between the AUCs is

    ½ Σ_ij [(ε_i + ε_j) (K(x_i, x_j) − K(y_i, y_j)) + (ε_i − ε_j) (K(x_i, y_j) − K(y_i, x_j))] / pairs,

which is linear in ε. So a permutation test of any measure here is one matrix product. Scores of two methods have no
common scale, so x and y are ranks within their method, as in E. S. Venkatraman, C. B. Begg: A distribution-free
procedure for comparing receiver operating characteristic curves from a paired experiment, Biometrika 1996.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from conceptlens.stats.weighted import mean_known, weighted_accuracy, weighted_balanced_accuracy
from conceptlens.stats.weighted_within import stratum_places, weighted_auc_within

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Decided:
    """Which answer holds? The share of right ones, or the mean of the shares over the answers."""

    chosen: Integers  # (N,)
    truth: Integers  # (N,); negative: unknown, left out
    balanced: bool
    at_least: int = 1  # so many answers must occur, or there is no balanced value

    def value(self, weights: Floats) -> Floats:
        """(R,) for weights (R, N)."""
        if self.balanced:
            return weighted_balanced_accuracy(self.chosen, self.truth, weights, at_least=self.at_least)
        return weighted_accuracy(self.chosen == self.truth, weights, self.truth >= 0)

    @property
    def exists(self) -> bool:
        answers = len(np.unique(self.truth[self.truth >= 0]))
        return answers >= (self.at_least if self.balanced else 1)

    def _parts(self) -> Floats:
        """What each image adds to the value, (N,)."""
        known = self.truth >= 0
        share = np.zeros(len(self.truth))
        if self.balanced:
            support = np.bincount(self.truth[known])
            share[known] = 1 / (support[self.truth[known]] * (support > 0).sum())
        else:
            share[known] = 1 / known.sum()
        return np.where(self.chosen == self.truth, share, 0.0)

    def against(self, other: "Decided") -> Floats:
        return self._parts() - other._parts()


@dataclass(frozen=True, eq=False)
class Ordered:
    """Does the answer get higher scores where it holds? The AUC, from pairs of one stratum."""

    scores: Floats  # (N,)
    positive: npt.NDArray[np.bool_]  # (N,)
    strata: Integers  # (N,); negative: unknown, left out

    def value(self, weights: Floats) -> Floats:
        """(R,) for weights (R, N)."""
        return weighted_auc_within(self.scores, self.positive, self.strata, weights)

    @property
    def exists(self) -> bool:
        return self._pairs() > 0

    def _pairs(self) -> float:
        kept = self.strata >= 0
        counts = [np.bincount(self.strata[kept & mark]) for mark in (self.positive, ~self.positive)]
        both = min(map(len, counts))
        return float(counts[0][:both] @ counts[1][:both])

    def against(self, other: "Ordered") -> Floats:
        kept = np.flatnonzero(self.strata >= 0)
        x, y = rankdata(self.scores[kept]), rankdata(other.scores[kept])
        positive, strata = self.positive[kept], self.strata[kept]
        place, _ = stratum_places(np.concatenate([x, y]), np.concatenate([strata, strata]))
        x_place, y_place = place[: len(kept)], place[len(kept) :]
        part = np.zeros(len(kept))
        for mine, theirs, sign in ((positive, ~positive, 1.0), (~positive, positive, -1.0)):
            # `_below` counts, of the theirs in an image's stratum, those it exceeds, up to a constant of the stratum
            # that cancels: every sum below has as many terms with plus as with minus.
            own = _below(x_place[mine], x_place[theirs]) - _below(y_place[mine], y_place[theirs])
            cross = _below(x_place[mine], y_place[theirs]) - _below(y_place[mine], x_place[theirs])
            part[mine] = sign * (own + cross) / 2
        result = np.zeros(len(self.scores))
        result[kept] = part / self._pairs()
        return result


def _below(places: Integers, others: Integers) -> Floats:
    """How many of the others lie below each place, a tie counting half."""
    ladder = np.sort(others)
    return np.asarray((np.searchsorted(ladder, places, "left") + np.searchsorted(ladder, places, "right")) / 2)


Question: TypeAlias = "Decided | Ordered | list[Question]"  # a list is the mean of its members that have a value


def value(question: Question, weights: Floats) -> Floats:
    """The measure (R,) under weights (R, N); NaN where it has no value."""
    if isinstance(question, list):
        if not question:
            return np.full(len(weights), np.nan)
        return mean_known(np.stack([value(member, weights) for member in question], axis=1))
    return question.value(weights)


def exists(question: Question) -> bool:
    """Whether the measure has a value on the images as they are."""
    return any(map(exists, question)) if isinstance(question, list) else question.exists


def difference(first: Question, second: Question) -> Floats:
    """What each image adds to the first method's measure minus the second's, (N,); both are of the same form."""
    if isinstance(first, list) and isinstance(second, list):
        pairs = [(one, two) for one, two in zip(first, second, strict=True) if exists(one)]
        return np.asarray(np.mean([difference(one, two) for one, two in pairs], axis=0))
    if isinstance(first, Decided) and isinstance(second, Decided):
        return first.against(second)
    assert isinstance(first, Ordered)
    assert isinstance(second, Ordered)
    return first.against(second)
