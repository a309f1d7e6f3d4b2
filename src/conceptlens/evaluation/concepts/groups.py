"""Concept groups as questions with one answer each, so that every concept measure is written once.

An exclusive group is one question: which of its values holds? An independent group is one question per value: no or
yes? A yes/no with logit z is the same as two exclusive values with logits (0, z): softmax gives the sigmoid, the larger
one is the decision at 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp, softmax

from conceptlens.concepts import UNKNOWN, ConceptSet, Group
from conceptlens.core.errors import UserError
from conceptlens.stats.finite import finite

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GroupScores:
    """The scores of one question for N images: an exclusive group, or one value of an independent group."""

    group: Group
    columns: tuple[int, ...]  # the concepts it answers for; a yes/no answers for one
    logits: Floats  # (N, V); (N, 2) for a yes/no
    truth: npt.NDArray[np.int64]  # (N,): the answer's position, or UNKNOWN
    prior: Floats | None  # (V,): shares of the answers in training

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        return np.asarray(self.truth != UNKNOWN)

    @property
    def predicted(self) -> npt.NDArray[np.int64]:
        return np.asarray(self.logits.argmax(1))

    @property
    def corrected(self) -> npt.NDArray[np.int64] | None:
        """Decisions as if all answers had been equally frequent in training: the argmax of logit − log prior."""
        return None if self.prior is None else (self.logits - np.log(self.prior)).argmax(1)

    @property
    def probabilities(self) -> Floats:
        return np.asarray(softmax(self.logits, axis=1)) if self.logits.size else self.logits

    def log_odds(self, answer: int) -> Floats:
        """ln(p / (1 − p)) of an answer, (N,): orders images as p does, but does not saturate where p rounds to 1."""
        rest = np.delete(self.logits, answer, axis=1)
        return self.logits[:, answer] - np.asarray(logsumexp(rest, axis=1)) if len(rest) else rest[:, 0]

    @property
    def answers(self) -> Sequence[int]:
        """Answers with a score of their own: all of an exclusive group, the yes of a yes/no, which the no mirrors."""
        return range(len(self.columns)) if self.group.kind == "exclusive" else (1,)


def concept_priors(labels: npt.NDArray[np.int8], concepts: ConceptSet) -> Floats:
    """Share (K,) of training images in which each concept holds, among those where it is known.

    Half an image is added to each answer, so that a value training never showed has a small prior rather than none.
    """
    priors = np.empty(len(concepts))
    for scored in group_scores(np.zeros(labels.shape), labels, concepts):
        counts = np.bincount(scored.truth[scored.known], minlength=scored.logits.shape[1]) + 0.5
        shares = counts / counts.sum()
        priors[list(scored.columns)] = shares[list(scored.answers)]
    return priors


def concept_counts(labels: npt.NDArray[np.int8]) -> list[int]:
    """Training images in which each concept holds (K,); UNKNOWN for a concept that nobody labeled."""
    known = (labels != UNKNOWN).any(0)
    counts: list[int] = np.where(known, (labels == 1).sum(0), UNKNOWN).tolist()
    return counts


def group_scores(
    logits: npt.ArrayLike, labels: npt.ArrayLike, concepts: ConceptSet, priors: npt.ArrayLike | None = None
) -> list[GroupScores]:
    """The questions of a concept set, in its order.

    Args:
        logits: (N, K) finite.
        labels: (N, K) of 0, 1, UNKNOWN. An exclusive group is known where exactly one of its values is 1.
        concepts: The vocabulary.
        priors: (K,) from `concept_priors` of the training labels.
    """
    scores, marks = np.asarray(logits, dtype=np.float64), np.asarray(labels)
    if scores.shape != marks.shape or scores.ndim != 2 or scores.shape[1] != len(concepts):
        raise UserError(
            f"Concept metrics need logits and labels of shape (N, {len(concepts)}), a column for each concept of "
            f"{concepts.name!r}; the logits are {scores.shape}, the labels {marks.shape}."
        )
    finite(scores, "concept scores")
    shares = None if priors is None else np.clip(np.asarray(priors, dtype=np.float64), 1e-9, 1 - 1e-9)
    found: list[GroupScores] = []
    for group in concepts.groups:
        span = group.concepts
        if group.kind == "exclusive":
            held = marks[:, span] == 1
            truth = np.where(held.sum(1) == 1, held.argmax(1), UNKNOWN)
            prior = None if shares is None else shares[span]
            found.append(GroupScores(group, tuple(range(span.start, span.stop)), scores[:, span], truth, prior))
            continue
        for column in range(span.start, span.stop):
            pair = np.stack([np.zeros(len(scores)), scores[:, column]], axis=1)
            prior = None if shares is None else np.array([1 - shares[column], shares[column]])
            found.append(GroupScores(group, (column,), pair, marks[:, column].astype(np.int64), prior))
    return found
