"""The measures of a comparison that are told from predictions, image by image, as questions (see `questions`)."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.data.dataset import Task
from conceptlens.evaluation.concepts.groups import GroupScores, group_scores
from conceptlens.nn.heads.probabilities import class_probabilities
from conceptlens.stats.questions import Decided, Ordered, Question

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Answers:
    """What one training (or all folds of one cross-validation) said of N test images, and what is true of them."""

    task: Task
    logits: npt.NDArray[np.float32]  # (N, C)
    concept_logits: npt.NDArray[np.float32]  # (N, K); (N, 0) of a method that reads no concepts
    labels: Integers  # (N,) or (N, C)
    concept_labels: npt.NDArray[np.int8]  # (N, K)
    concepts: ConceptSet
    thresholds: Floats  # (N, C): of a multi-label task's decisions
    fold: Integers  # (N,): scores of different folds come from different models and are not ordered together


def questions(answers: Answers) -> dict[str, Question]:
    """The measures by their path in `metrics.json`, with which they agree on images of one fold."""
    reads = answers.concept_logits.shape[1] > 0
    asked = group_scores(answers.concept_logits, answers.concept_labels, answers.concepts) if reads else []
    classes = _single(answers) if answers.task != "multilabel" else _multilabel(answers)
    return {
        **classes,
        "concept.balanced_accuracy": _by_group(
            asked, lambda scored: Decided(scored.predicted, scored.truth, balanced=True, at_least=2)
        ),
        "concept.auc": _by_group(asked, lambda scored: _each_answer(scored, answers.fold)),
        "concept.auc_within_class": _by_group(asked, lambda scored: _each_answer(scored, _fold_and_class(answers))),
    }


def _single(answers: Answers) -> dict[str, Question]:
    shares, truth = class_probabilities(answers.logits, answers.task), answers.labels
    chosen = shares.argmax(1)
    strata = np.where(truth >= 0, answers.fold, -1)
    return {
        "class.accuracy": Decided(chosen, truth, balanced=False),
        "class.balanced_accuracy": Decided(chosen, truth, balanced=True),
        "class.macro_auc": [Ordered(shares[:, c], truth == c, strata) for c in range(shares.shape[1])],
    }


def _multilabel(answers: Answers) -> dict[str, Question]:
    shares, truth = class_probabilities(answers.logits, answers.task), answers.labels
    chosen = (shares >= answers.thresholds).astype(np.int64)
    columns = range(shares.shape[1])
    return {
        "class.accuracy": [Decided(chosen[:, c], truth[:, c], balanced=False) for c in columns],
        "class.balanced_accuracy": [Decided(chosen[:, c], truth[:, c], balanced=True, at_least=2) for c in columns],
        "class.macro_auc": [
            Ordered(shares[:, c], truth[:, c] == 1, np.where(truth[:, c] != UNKNOWN, answers.fold, -1)) for c in columns
        ],
    }


def _by_group(asked: list[GroupScores], question: Callable[[GroupScores], Question]) -> Question:
    """Every group counts the same, however many yes/no questions it holds."""
    return [[question(scored) for scored in members] for _, members in groupby(asked, key=lambda scored: scored.group)]


def _each_answer(scored: GroupScores, strata: Integers) -> Question:
    inside = np.where(scored.known, strata, -1)
    return [Ordered(scored.log_odds(answer), scored.truth == answer, inside) for answer in scored.answers]


def _fold_and_class(answers: Answers) -> Integers:
    """One number for each fold and class (of several labels: each combination); negative where a label is unknown."""
    labels = answers.labels if answers.labels.ndim == 2 else answers.labels[:, None]
    rows = np.concatenate([answers.fold[:, None], labels], axis=1)
    number = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    return np.where((labels < 0).any(1), -1, number)
