"""The reference reader: how much of the class do scores carry that were learned from concept labels alone?

An honest score is graded: among cells that are labeled `large` it says *how* large, and so something of the class. It
errs where a class is hard. So a run is compared with a reader of equal capacity that never saw the class:

- the run itself, where by its recipe nothing of the class reaches its concepts: its excess is 0 by construction;
- the same method trained again without the class in its concepts, where it can be (`training.without_class`);
- otherwise a linear reader: for each question a logistic regression from the image's vector (class token, mean patch)
  to the concept's label, learned on the run's training images.

A linear reader is not the equal of every other: one that was trained by few steps of gradient descent, say, relies more
on what varies most in its vectors, the class above all, as does one that is strongly regularized. So the reader of a
question is the most regularized one that still reads this question as well as the run does (area under the ROC curve),
or the best one if none does.

A class head is fitted on what the reader says of training images it did not learn from: a sequential model.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.evaluation.classification.auc import auc
from conceptlens.evaluation.interventions.units import Question, questions
from conceptlens.methods.linear_head import LinearHead
from conceptlens.nn.heads.bottleneck import log_probability
from conceptlens.nn.heads.probabilities import concept_probabilities_of
from conceptlens.runs.readout import Floats, Indices, Readout
from conceptlens.stats.folds import assign_folds, sides

STRENGTHS = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 1e-3)  # of the L2 penalty on standardized vectors, per image
FOLDS = 3  # of training images, for scores of images that the reader did not learn from
FEWEST = 5  # training images that an answer needs
NEVER = 1e3  # the logit of what the training images never show
Labels = npt.NDArray[np.int8]


@dataclass(frozen=True)
class TaughtImages:
    """What the reader learns from, and the judged images."""

    encoder: str  # `initial` or `final`
    vectors: Floats  # (T, D) of training images
    concepts: Labels  # (T, K)
    labels: Indices  # (T,), or (T, C) for a multi-label task
    judged: Floats  # (N, D) of the images of the readout


@dataclass(frozen=True)
class Reference:
    """The reader, and what it says of the judged images."""

    encoder: str
    readout: Readout  # the run's images as the reader sees them; no class head yet
    strengths: dict[int, float]  # question → regularization, of those that the training labels could teach
    auc: float | None  # of concepts, mean
    run_auc: float | None  # the run's, of the same

    @property
    def taught(self) -> list[int]:
        """Questions that the training labels could teach."""
        return list(self.strengths)


@dataclass(frozen=True)
class ClassFree:
    """A reader that never saw the class, with a class head of its own."""

    name: str  # in words
    readout: Readout  # the judged images as it reads them
    taught: list[int]  # questions that it reads
    auc: float | None  # of concepts, mean
    run_auc: float | None  # the run's, of the same

    @classmethod
    def of_run(cls, name: str, readout: Readout, reader: Readout) -> "ClassFree":
        """A model whose concepts never saw the class, beside the run that is judged."""
        asked = range(len(all_questions(readout.concepts)))
        auc, own = (mean_auc(each.concept_probabilities, each.truth) for each in (reader, readout))
        return cls(name, reader, list(asked), auc, own)


def linear_reader(readout: Readout, images: TaughtImages, note: Callable[[str], object]) -> ClassFree:
    """The reader of this module, for methods that cannot be trained without the class."""
    found = read_reference(readout, images, note=note)
    name = f"a linear reader of the {images.encoder} encoder's vectors"
    return ClassFree(name, sequential(found, images), found.taught, found.auc, found.run_auc)


def read_reference(
    readout: Readout,
    images: TaughtImages,
    *,
    strengths: Sequence[float] = STRENGTHS,
    note: Callable[[str], object] = lambda text: None,
) -> Reference:
    """Fit the reader on training images, and read the images of a run's readout."""
    learn, ask = _standardized(images)
    said = np.zeros((len(ask), len(readout.concepts)))
    own, asked, chosen = readout.concept_probabilities, all_questions(readout.concepts), {}
    for number, question in enumerate(asked):
        if number % 5 == 0:
            note(f"reference reader ({images.encoder} encoder): concept question {number + 1} of {len(asked)}")
        columns, answer = list(question.columns), _answers(images.concepts, question)
        if _rare(answer):
            continue
        truth = readout.truth[:, columns]
        goal, best = mean_auc(own[:, columns], truth), -1.0
        for strength in strengths:  # the strongest first
            scores = _read(learn, answer, ask, strength, question)
            quality = mean_auc(_shares(scores), truth) or 0.0
            if quality > best:
                best, chosen[number], said[:, columns] = quality, strength, scores
            if goal is not None and quality >= goal:
                break
    read = replace(readout, bottleneck=_in_space(said, readout.space, readout.concepts), concept_logits=said)
    kept = [column for number in chosen for column in asked[number].columns]
    return Reference(
        images.encoder,
        read,
        chosen,
        mean_auc(read.concept_probabilities[:, kept], readout.truth[:, kept]),
        mean_auc(own[:, kept], readout.truth[:, kept]),
    )


def sequential(reference: Reference, images: TaughtImages, *, seed: int = 0) -> Readout:
    """The reader with a class head of its own, fitted on what it says of training images it did not learn from."""
    readout, (learn, _) = reference.readout, _standardized(images)
    asked, said = all_questions(readout.concepts), np.zeros((len(learn), len(readout.concepts)))
    for others, left in sides(assign_folds([str(place) for place in range(len(learn))], FOLDS, seed=seed)):
        for number, strength in reference.strengths.items():
            question, answer = asked[number], _answers(images.concepts, asked[number])[others]
            cells = np.ix_(left, np.array(question.columns))
            said[cells] = _read(learn[others], answer, learn[left], strength, question)
    head = _head(_in_space(said, readout.space, readout.concepts), images.labels, len(readout.classes))
    return replace(
        readout,
        thresholds=(0.5,) * len(readout.classes),
        bypass=None,
        rest=np.zeros_like(readout.rest),
        decide=head.logits,
        head=head,
        context=None,
        decide_within=None,
    )


def all_questions(concepts: ConceptSet) -> list[Question]:
    """Of all groups, in their order."""
    return [question for group in questions(concepts) for question in group]


def _standardized(images: TaughtImages) -> tuple[Floats, Floats]:
    """Vectors of training and of judged images, in deviations of the training images."""
    mean, spread = images.vectors.mean(0), images.vectors.std(0)
    unit = np.where(spread > 0, spread, 1)
    return (images.vectors - mean) / unit, (images.judged - mean) / unit


def mean_auc(scores: Floats, truth: Labels) -> float | None:
    """Mean area under the ROC curve of concepts' scores and labels (N, K); None where no concept has both labels."""
    areas = [
        auc(column[known != UNKNOWN], known[known != UNKNOWN] == 1)
        for column, known in zip(scores.T, truth.T, strict=True)
    ]
    found = [area for area in areas if area is not None]
    return float(np.mean(found)) if found else None


def _answers(truth: Labels, question: Question) -> Indices:
    """The answer (N,) that labels give to a question: the position of the value, or 0 and 1; -1 where unknown."""
    part = truth[:, list(question.columns)]
    if len(question.columns) == 1:
        return np.where(part[:, 0] == UNKNOWN, -1, part[:, 0]).astype(np.int64)
    return np.where((part == 1).any(1), part.argmax(1), -1).astype(np.int64)


def _rare(answer: Indices) -> bool:
    """Whether fewer than two answers have enough images."""
    return bool((np.unique(answer[answer >= 0], return_counts=True)[1] >= FEWEST).sum() < 2)


def _read(learn: Floats, answer: Indices, ask: Floats, strength: float, question: Question) -> Floats:
    """Logits (N, columns) of a question for some images; of an exclusive group their sum is 0."""
    known = np.flatnonzero(answer >= 0)
    scores = np.zeros((len(ask), len(question.columns)))
    present = np.unique(answer[known])
    if len(present) < 2:
        return scores
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a reader at its last step is a reader
        model = LogisticRegression(C=1 / (strength * len(known)), max_iter=200).fit(learn[known], answer[known])
    found = model.decision_function(ask)
    if len(question.columns) == 1:
        return np.asarray(found[:, None])
    if len(present) == 2:
        found = np.stack([-found, found], axis=1) / 2
    scores[:] = found.min(1, keepdims=True) - 1  # values that nobody taught are the least likely
    scores[:, present] = found
    return np.asarray(scores - scores.mean(1, keepdims=True))


def _shares(scores: Floats) -> Floats:
    """Scores (N, columns) of one question as probabilities, as far as their order counts."""
    return scores if scores.shape[1] == 1 else np.asarray(softmax(scores, axis=1))


def _in_space(logits: Floats, space: str, concepts: ConceptSet) -> Floats:
    """What a class head that reads this space reads of concept logits (N, K)."""
    if space not in ("probability", "log-probability"):
        return logits
    shares = concept_probabilities_of(logits, concepts)
    if space == "log-probability":
        return log_probability(torch.from_numpy(shares), torch.as_tensor(concepts.exclusive)).numpy()
    return shares


def _head(scores: Floats, labels: Indices, classes: int) -> LinearHead:
    """A linear class head, fitted on scores (T, K) and classes, (T,) or (T, C)."""
    mean, spread = scores.mean(0), scores.std(0)
    unit = np.where(spread > 0, spread, 1)
    weight, bias = np.zeros((classes, scores.shape[1])), np.full(classes, -NEVER)
    # One decision between classes, or a yes or no for each.
    for place, target in [(None, labels)] if labels.ndim == 1 else list(enumerate(labels.T)):
        known = np.flatnonzero(target >= 0)
        present = np.unique(target[known])
        if len(present) < 2:
            rows = present if place is None else np.full(len(present), place)
            bias[rows] = NEVER if place is None else NEVER * (2 * present - 1)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(max_iter=300).fit((scores[known] - mean) / unit, target[known])
        slope, start = model.coef_ / unit, model.intercept_ - (model.coef_ / unit) @ mean
        if place is not None:
            weight[place], bias[place] = slope[0], start[0]
        elif len(present) == 2:
            weight[present], bias[present] = np.stack([-slope[0], slope[0]]) / 2, np.stack([-start[0], start[0]]) / 2
        else:
            weight[present], bias[present] = slope, start
    return LinearHead(weight, bias, bypass=False)
