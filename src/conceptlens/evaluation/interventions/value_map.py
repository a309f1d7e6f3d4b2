"""From a label or a probability to the space that a method's class head reads, and back to a calibrated probability.

In a space of probabilities a label is 0 or 1. Elsewhere a yes is a high score and a no a low one: the 95th and the 5th
percentile of the concept's scores (Koh et al., ICML 2020, section 4), or the mean score of the images with that label.
A probability p becomes the score at which a logistic curve through (score, label) gives p (Platt, 1999), within those
percentiles. Probabilities that decide what to ask next are calibrated in the same way: a cosine is no probability.
"""

from dataclasses import dataclass, fields, replace
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.errors import unknown_name
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.folds import sides

To = Literal["quantile", "mean"]
TAIL = 0.05
RIDGE = 1e-2  # pseudo-observations that keep a slope finite where labels are separated completely
SURE = 1e-6  # probabilities come no closer to 0 and 1


@dataclass(frozen=True)
class ValueMap:
    """Of each concept, (1, K); or of each image and concept, (N, K), where it was learned from other images."""

    yes: Floats  # the score that stands for a yes
    no: Floats
    low: Floats  # percentiles of the scores
    high: Floats
    slope: Floats  # p = σ(slope · score + offset)
    offset: Floats
    odds_slope: Floats  # p = σ(odds_slope · log-odds the model gives + odds_offset)
    odds_offset: Floats
    probability_space: bool

    def rows(self, index: Indices) -> "ValueMap":
        """Those of some images."""
        if len(self.yes) == 1:
            return self
        return replace(self, **{name: getattr(self, name)[index] for name in _ARRAYS})

    def scores(self, labels: npt.NDArray[np.int8], said: Floats) -> Floats:
        """Scores (N, K) that stand for labels; where one is unknown, what the model said."""
        return np.where(labels == 1, self.yes, np.where(labels == 0, self.no, said))

    def score_at(self, probability: float) -> Floats:
        """The score that stands for a probability; the middle where higher scores do not speak for the concept."""
        if self.probability_space:
            return np.full_like(self.yes, probability)
        at = (logit(probability) - self.offset) / np.where(self.slope == 0, 1, self.slope)
        middle = (self.low + self.high) / 2
        score: Floats = np.where(self.slope > 0, np.clip(at, self.low, self.high), middle)
        return score

    def probabilities(self, said: Floats, concepts: ConceptSet) -> Floats:
        """Calibrated probabilities (N, K) of the concepts, given those that the model states."""
        odds = logit(np.clip(said, SURE, 1 - SURE))
        found: Floats = np.clip(expit(self.odds_slope * odds + self.odds_offset), SURE, 1 - SURE)
        for group in concepts.groups:
            if group.kind == "exclusive":
                found[:, group.concepts] /= found[:, group.concepts].sum(1, keepdims=True)
        return found


_ARRAYS = [each.name for each in fields(ValueMap) if each.name != "probability_space"]


def fit_map(readout: Readout, learn: Indices, to: str = "quantile") -> ValueMap:
    """The map that some images teach, (1, K)."""
    if to not in get_args(To):
        raise unknown_name("way to write a label", to, get_args(To))
    scores, truth = readout.bottleneck[learn], readout.truth[learn]
    known = truth != UNKNOWN
    low, high = np.quantile(scores, [TAIL, 1 - TAIL], axis=0)
    yes, no = high, low
    if readout.space == "probability":
        yes, no = np.ones_like(high), np.zeros_like(low)
    elif to == "mean":
        yes, no = _mean_where(scores, truth == 1, high), _mean_where(scores, truth == 0, low)
    odds = logit(np.clip(readout.concept_probabilities[learn], SURE, 1 - SURE))
    curves = [*platt(scores, truth == 1, known), *platt(odds, truth == 1, known)]
    rows = dict(zip(_ARRAYS, (yes, no, low, high, *curves), strict=True))
    return ValueMap(**{name: row[None] for name, row in rows.items()}, probability_space=readout.space == "probability")


def cross_map(readout: Readout, fold: Indices, to: str = "quantile") -> ValueMap:
    """The map of each image, (N, K), that the other folds teach."""
    parts = [(ask, fit_map(readout, learn, to)) for learn, ask in sides(fold)]
    whole = {name: np.empty_like(readout.bottleneck) for name in _ARRAYS}
    for ask, found in parts:
        for name, column in whole.items():
            column[ask] = getattr(found, name)
    return ValueMap(**whole, probability_space=readout.space == "probability")


def _mean_where(scores: Floats, mask: npt.NDArray[np.bool_], otherwise: Floats) -> Floats:
    count = mask.sum(0)
    return np.where(count > 0, (scores * mask).sum(0) / np.maximum(count, 1), otherwise)


def platt(scores: Floats, positive: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Slope and offset (K,) of a logistic curve for each column of scores (N, K), by Newton's method.

    The slope, in units of the column's standard deviation, is held by a ridge: where labels are separable it would grow
    without end. A concept with a single label has slope 0 and its share, half an image added to each side, as level.
    """
    weight = known.astype(np.float64)
    count = weight.sum(0)
    safe = np.maximum(count, 1)
    center = (scores * weight).sum(0) / safe
    spread = np.sqrt((weight * (scores - center) ** 2).sum(0) / safe)
    unit = np.where(spread > 0, spread, 1)
    x, y = (scores - center) / unit, (positive & known).astype(np.float64)
    share = (y.sum(0) + 0.5) / (count + 1)
    slope, level = np.zeros(scores.shape[1]), logit(share)
    both = (y.sum(0) > 0) & (y.sum(0) < count) & (spread > 0)
    for _ in range(30):
        p = expit(slope * x + level)
        error, bend = weight * (p - y), weight * p * (1 - p) + 1e-12
        g0, g1 = error.sum(0), (error * x).sum(0) + RIDGE * slope
        h00, h01, h11 = bend.sum(0), (bend * x).sum(0), (bend * x * x).sum(0) + RIDGE
        scale = np.maximum(h00 * h11 - h01**2, 1e-12)
        # Steps are bounded: far from the optimum of nearly separable labels Newton's would overshoot.
        step0, step1 = np.clip((h11 * g0 - h01 * g1) / scale, -2, 2), np.clip((h00 * g1 - h01 * g0) / scale, -2, 2)
        level, slope = level - np.where(both, step0, 0), slope - np.where(both, step1, 0)
    return slope / unit, level - slope * center / unit
