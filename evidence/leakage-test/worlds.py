"""Images of a made-up world, an honest reader of its concepts, and one with a planted leak.

Each of seven quantities is graded and depends on the class; a concept's label is the quantity cut at one or two
thresholds. A vector of 20 numbers shows the quantities, something of the class itself, and noise. The run's reader
learns concept labels from its own view of the vectors, with noise of its own, from four fifths of the training images
and with another strength of regularization for each question, so that it is never the reference reader. Its class head
is fitted on its scores. A leak adds a direction of the class to every score, in standard deviations of the score.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from conceptlens.concepts import ConceptSet
from conceptlens.evaluation.interventions.units import questions
from conceptlens.evaluation.leakage.reference import TaughtImages
from conceptlens.methods.linear_head import LinearHead
from conceptlens.nn.heads.probabilities import concept_probabilities_of
from conceptlens.runs.readout import Floats, Readout

warnings.filterwarnings("ignore")  # solvers at their last step
TAUGHT, JUDGED, WIDTH, CLASSES = 800, 500, 20, 4
CONCEPTS = ConceptSet.from_yaml(
    """
classes: [a, b, c, d]
groups:
  size: {values: [small, large]}
  shade: {values: [light, dark]}
  grain: {values: [fine, coarse]}
  lobes: {values: [one, two, many]}
  margin: {values: [smooth, wavy, ragged]}
  marks: {kind: independent, values: [dots, lines]}
"""
)
QUESTIONS = [each for group in questions(CONCEPTS) for each in group]
CUTS = [(0.0,)] * 3 + [(-0.6, 0.6)] * 2 + [(0.0,)] * 2  # of the quantity behind each question


@dataclass(frozen=True)
class World:
    """How images and scores are made."""

    name: str
    leak: float = 0.0  # standard deviations of a score
    leaking: int = len(QUESTIONS)  # questions whose scores leak, the last ones
    apart: float = 1.0  # how much the quantities depend on the class
    visible: float = 1.0  # how much the vectors show of the class itself
    errors: float = 0.0  # share of labels that are wrong; twice as many in one class
    uneven: float = 0.0  # further noise in one class
    space: str = "logit"
    complete: bool = False  # the labels of the first two questions say the class; how large they are depends on it too
    network: bool = False  # the run's reader is a small network

    def draw(self, seed: int) -> tuple[Readout, TaughtImages]:
        """A run's scores of judged images, and what a reference reader learns from."""
        chance = np.random.default_rng([seed, 1])
        n = TAUGHT + JUDGED
        labels = chance.integers(CLASSES, size=n)
        amounts = self.apart * chance.normal(size=(CLASSES, len(CUTS)))[labels] + chance.normal(size=(n, len(CUTS)))
        if self.complete:
            amounts[:, :2] = np.abs(amounts[:, :2]) * (2 * np.stack([labels % 2, labels // 2], axis=1) - 1)
        truth = np.zeros((n, len(CONCEPTS)), np.int8)
        for question, cuts, amount in zip(QUESTIONS, CUTS, amounts.T, strict=True):
            value = (amount[:, None] > np.array(cuts)).sum(1)
            wrong = chance.random(n) < self.errors * (1 + (labels == 1))
            value = np.where(wrong, chance.integers(len(cuts) + 1, size=n), value)
            columns = list(question.columns)
            truth[:, columns] = value[:, None] if len(columns) == 1 else np.eye(len(columns))[value]
        shows = 3 * chance.normal(size=(len(CUTS), WIDTH)) / WIDTH**0.5
        classes = 2 * self.visible * chance.normal(size=(CLASSES, WIDTH)) / WIDTH**0.5
        noise = 0.6 * (1 + self.uneven * (labels == 0))[:, None]
        vectors = amounts @ shows + classes[labels] + noise * chance.normal(size=(n, WIDTH))
        logits = self.read(vectors + 0.3 * chance.normal(size=vectors.shape), truth, chance)
        logits += self.leak * logits.std(0) * self.pattern(chance)[labels]
        scores = concept_probabilities_of(logits, CONCEPTS) if self.space == "probability" else logits
        learn, judge = slice(0, TAUGHT), slice(TAUGHT, None)
        head = class_head(scores[learn], labels[learn])
        names = tuple(map(str, range(JUDGED)))
        readout = Readout(
            CONCEPTS, CONCEPTS.classes, "single", (0.5,) * CLASSES, names, names, "logit", None, scores[judge],
            logits[judge], truth[judge], labels[judge], np.zeros((JUDGED, CLASSES)), head.logits, head,
        )  # fmt: skip
        if self.space == "probability":
            readout = replace(readout, space="probability")
        return readout, TaughtImages("initial", vectors[learn], truth[learn], labels[learn], vectors[judge])

    def read(self, vectors: Floats, truth: np.ndarray, chance: np.random.Generator) -> Floats:
        """An honest reader's logits (N, K), learned from some of the training images."""
        some = chance.permutation(TAUGHT)[: TAUGHT * 4 // 5]
        unit = (vectors - vectors[some].mean(0)) / vectors[some].std(0)
        logits = np.zeros(truth.shape)
        for question in QUESTIONS:
            columns, strength = list(question.columns), 10 ** chance.uniform(-3, 0)
            answer = truth[:, columns[0]] if len(columns) == 1 else truth[:, columns].argmax(1)
            if self.network:
                model = MLPClassifier((16,), alpha=1.0, max_iter=30, learning_rate_init=0.01, random_state=0)
            else:
                model = LogisticRegression(C=1 / (strength * len(some)), max_iter=200)
            shares = np.log(np.clip(model.fit(unit[some], answer[some]).predict_proba(unit), 1e-9, 1))
            if len(columns) == 1:
                logits[:, columns[0]] = shares[:, 1] - shares[:, 0]
            else:
                logits[:, np.array(columns)[model.classes_]] = shares - shares.mean(1, keepdims=True)
        return logits

    def pattern(self, chance: np.random.Generator) -> Floats:
        """The direction of each class in the scores, (C, K): mean 0, deviation 1 for every score that leaks."""
        found = chance.normal(size=(CLASSES, len(CONCEPTS)))
        found = (found - found.mean(0)) / found.std(0)
        first = QUESTIONS[len(QUESTIONS) - self.leaking].columns[0]
        return np.where(np.arange(len(CONCEPTS)) >= first, found, 0.0)


def class_head(scores: Floats, labels: np.ndarray) -> LinearHead:
    mean, spread = scores.mean(0), scores.std(0) + 1e-9
    model = LogisticRegression(max_iter=300).fit((scores - mean) / spread, labels)
    weight = model.coef_ / spread
    return LinearHead(weight, model.intercept_ - weight @ mean, bypass=False)


GRADED = World("graded")
UNEVEN = World("graded, errors depend on the class", errors=0.05, uneven=1.5)
SPACE = World("graded, head reads probabilities", space="probability")
CLEAN = (
    GRADED,
    UNEVEN,
    SPACE,
    World("graded, concepts complete", complete=True),
    World("graded, reader is a network", network=True),
)
LEAKS = (
    *(replace(world, name=f"{world.name}, leak 0.4", leak=0.4) for world in (GRADED, UNEVEN, SPACE)),
    World("graded, concepts complete, leak 0.4", complete=True, leak=0.4),
    World("graded, leak 0.4 in one concept of seven", leak=0.4, leaking=1),
)
