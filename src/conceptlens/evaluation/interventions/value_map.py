"""How an answer is written into what a class head reads, and what a probability is worth there.

An answer is given to a question: a value of an exclusive group, written over the whole group, or a yes or no.

- `one-hot`, where the head reads probabilities or their logarithms: 1 for what holds and 0 for the rest, as the head
  reads them. A yes or no that the model says itself leaves its probability as it is.
- `learned`: the vectors that the model learned for answers.
- `shift`: the image's own scores, plus the mean scores of images with that label, minus those of images with the label
  that the model reads. To confirm an answer changes nothing.
- `quantile`: the 95th percentile of a concept's scores for a yes, the 5th for a no (Koh et al., ICML 2020, section 4).
- `mean`: the mean scores of images with that label.

A probability p becomes the score at which a logistic curve through (score, label) gives p (Platt, 1999), within those
percentiles. Probabilities that decide what to ask next are calibrated in the same way: a cosine is no probability.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import expit, logit

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.evaluation.interventions.units import questions
from conceptlens.nn.heads.bottleneck import log_probability
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.folds import sides

if TYPE_CHECKING:
    from conceptlens.methods.contract import Space

Labels = npt.NDArray[np.int8]
Way = Literal["one-hot", "learned", "shift", "quantile", "mean"]
To = Literal["auto", "one-hot", "learned", "shift", "quantile", "mean"]
TAIL = 0.05
RIDGE = 1e-2  # pseudo-observations that keep a slope finite where labels are separated completely
SURE = 1e-6  # probabilities come no closer to 0 and 1


def ways(readout: Readout) -> tuple[Way, ...]:
    """The ways in which answers can be written for this head, the default first."""
    learned: tuple[Way, ...] = () if readout.answers is None else ("learned",)
    if readout.space == "probability":
        return ("one-hot", *learned, "mean")
    if readout.space == "log-probability":
        return ("one-hot", "shift", "quantile", "mean")
    return (*learned, "shift", "quantile", "mean")


def choose_way(readout: Readout, to: str = "auto") -> Way:
    """The way of that name; `auto` is the default of the head."""
    if to not in get_args(To):
        raise unknown_name("way to write an answer", to, get_args(To))
    possible = {str(way): way for way in ways(readout)}
    if to != "auto" and to not in possible:
        raise UserError(
            f"--to {to}: this class head reads the space {readout.space!r}"
            + ("" if to != "learned" else ", and the model learned no vectors for answers")
            + f". Choose one of {', '.join(possible)}."
        )
    return ways(readout)[0] if to == "auto" else possible[to]


@dataclass(frozen=True)
class ValueMap:
    """What some images teach, F = 1; or one for each of F folds, learned from the other ones."""

    way: Way
    space: "Space"
    yes: Floats  # (F, K): what is written where a single concept is told to hold
    no: Floats
    values: Floats  # (F, K, W): what is written over an exclusive group, its first W columns, when told concept k
    low: Floats  # (F, K): percentiles of the scores
    high: Floats
    slope: Floats  # (F, K): p = σ(slope · score + offset)
    offset: Floats
    odds_slope: Floats  # (F, K): p = σ(odds_slope · log-odds the model gives + odds_offset)
    odds_offset: Floats
    fold: Indices | None = None  # (N,): which of the F each image has; None: the only one

    def rows(self, index: Indices) -> "ValueMap":
        """Those of some images."""
        return self if self.fold is None else replace(self, fold=self.fold[index])

    def of_images(self, array: Floats) -> Floats:
        """One of the arrays for each image, (N, …); (1, …) where all have the same."""
        return array if self.fold is None else array[self.fold]

    def answer(
        self, columns: Sequence[int], held: npt.NDArray[np.bool_], scores: Floats, read: Labels, *, harden: bool = False
    ) -> Floats:
        """Scores (n, V) of the concepts of one question, answered.

        Args:
            columns: (V,) the concepts: all of an exclusive group, or one.
            held: (n, V), or (V,) for all images: which of them hold.
            scores: (n, V) the images' own.
            read: (n, V) the labels that the model reads.
            harden: Also write a yes or no that is already read, where it would leave the probability as it is.
        """
        told = self._told(columns, held)
        if self.way == "shift":
            return scores + (told - self._told(columns, read == 1))  # exactly the own scores where both are the same
        if self.way == "one-hot" and len(columns) == 1 and not harden:
            return np.where(held == (read == 1), scores, told)
        return np.broadcast_to(told, scores.shape)

    def _told(self, columns: Sequence[int], held: npt.NDArray[np.bool_]) -> Floats:
        fold: Indices | int = 0 if self.fold is None else self.fold
        if len(columns) == 1:
            column = columns[0]
            yes, no = np.asarray(self.yes[fold, column]), np.asarray(self.no[fold, column])
            return np.where(held, yes[..., None], no[..., None])
        return np.asarray(self.values[fold, columns[0] + held.argmax(-1), : len(columns)])

    def write(self, readout: Readout, labels: Labels, *, harden: bool = False) -> Floats:
        """What the head reads of these images (N, K) once a person has told these labels; unknown ones stay."""
        scores, read = readout.bottleneck, readout.read_labels
        written = scores.copy()
        for question in [question for asked in questions(readout.concepts) for question in asked]:
            columns = list(question.columns)
            told = labels[:, columns]
            whole = (told == 1).sum(1) == 1 if len(columns) > 1 else np.zeros(len(told), dtype=bool)
            if whole.any():
                found = self.answer(columns, told == 1, scores[:, columns], read[:, columns])
                written[:, columns] = np.where(whole[:, None], found, scores[:, columns])
            for place, column in enumerate(columns):  # yes/no concepts, and values that are only known not to hold
                single = (told[:, place] != UNKNOWN) & ~whole
                if single.any():
                    held, own, label = told[:, [place]] == 1, scores[:, [column]], read[:, [column]]
                    found = self.answer([column], held, own, label, harden=harden)
                    written[:, column] = np.where(single, found[:, 0], written[:, column])
        return written

    def score_at(self, probability: float) -> Floats:
        """The score that stands for a probability; the middle where higher scores do not speak for the concept."""
        yes = self.of_images(self.yes)
        if self.space == "probability":
            return np.full_like(yes, probability)
        slope, offset, low, high = (self.of_images(each) for each in (self.slope, self.offset, self.low, self.high))
        with np.errstate(divide="ignore"):
            at = (logit(probability) - offset) / np.where(slope == 0, 1, slope)
        score: Floats = np.where(slope > 0, np.clip(at, low, high), (low + high) / 2)
        return score

    def probabilities(self, said: Floats, concepts: ConceptSet) -> Floats:
        """Calibrated probabilities (N, K) of the concepts, given those that the model states."""
        odds = logit(np.clip(said, SURE, 1 - SURE))
        slope, offset = self.of_images(self.odds_slope), self.of_images(self.odds_offset)
        found: Floats = np.clip(expit(slope * odds + offset), SURE, 1 - SURE)
        for group in concepts.groups:
            if group.kind == "exclusive":
                found[:, group.concepts] /= found[:, group.concepts].sum(1, keepdims=True)
        return found


_ARRAYS = ("yes", "no", "values", "low", "high", "slope", "offset", "odds_slope", "odds_offset")


def fit_map(readout: Readout, learn: Indices, to: str = "auto") -> ValueMap:
    """The map that some images teach."""
    way = choose_way(readout, to)
    scores, truth = readout.bottleneck[learn], readout.truth[learn]
    known = truth != UNKNOWN
    low, high = np.quantile(scores, [TAIL, 1 - TAIL], axis=0)
    yes, no = _single(readout, way, scores, truth, low, high)
    odds = logit(np.clip(readout.concept_probabilities[learn], SURE, 1 - SURE))
    slope, offset = platt(scores, truth == 1, known)
    odds_slope, odds_offset = platt(odds, truth == 1, known)
    values = _together(readout, way, scores, truth, yes, no)
    rows = dict(zip(_ARRAYS, (yes, no, values, low, high, slope, offset, odds_slope, odds_offset), strict=True))
    return ValueMap(way, readout.space, **{name: row[None] for name, row in rows.items()})


def cross_map(readout: Readout, fold: Indices, to: str = "auto") -> ValueMap:
    """The map of each image that the other folds teach."""
    parts = [fit_map(readout, learn, to) for learn, _ in sides(fold)]
    whole = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
    return ValueMap(parts[0].way, readout.space, **whole, fold=np.unique(fold, return_inverse=True)[1].reshape(-1))


def _single(
    readout: Readout, way: Way, scores: Floats, truth: Labels, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """What stands for a yes and for a no of each concept alone, (K,)."""
    if way == "one-hot" and readout.space == "log-probability":
        told = torch.eye(2, dtype=torch.float64)[:, :1].expand(2, len(high))  # 1 of all concepts, then 0
        yes, no = log_probability(told, torch.as_tensor(readout.concepts.exclusive)).numpy()
        return yes, no
    if way == "one-hot":
        return np.ones_like(high), np.zeros_like(low)
    if way == "quantile":
        return high, low
    if way == "learned":
        assert readout.answers is not None
        no, yes = (np.diagonal(side).copy() for side in readout.answers)
        for group in readout.concepts.groups:
            if group.kind == "exclusive" and len(group.values) > 1:  # not k: what k gets on average for the others
                part = readout.answers[1][group.concepts, group.concepts]
                no[group.concepts] = (part.sum(0) - np.diagonal(part)) / (len(part) - 1)
        return yes, no
    return _mean_where(scores, truth == 1, high), _mean_where(scores, truth == 0, low)


def _together(readout: Readout, way: Way, scores: Floats, truth: Labels, yes: Floats, no: Floats) -> Floats:
    """What is written over an exclusive group when one of its values is told, (K, W)."""
    groups = [group for group in readout.concepts.groups if group.kind == "exclusive"]
    values = np.zeros((len(yes), max((len(group.values) for group in groups), default=0)))
    for group in groups:
        columns = np.arange(group.concepts.start, group.concepts.stop)
        for k in columns.tolist():
            found = np.where(columns == k, yes[columns], no[columns])
            if way == "learned" and readout.answers is not None:
                found = readout.answers[1, k, columns]
            elif way in ("shift", "mean") and (truth[:, k] == 1).any():
                found = scores[truth[:, k] == 1][:, columns].mean(0)
            values[k, : len(columns)] = found
    return values


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
