"""Scores made to measure: a clean bottleneck, one with a planted leak, one with a planted shortcut."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from conceptlens.concepts import ConceptSet
from conceptlens.methods.linear_head import LinearHead
from conceptlens.nn.heads.probabilities import concept_probabilities_of
from conceptlens.runs.readout import Floats, Readout

CONCEPTS = ConceptSet.from_yaml(
    """
classes: [one, two, three]
groups:
  shape: {part: outline, values: [round, square, star]}
  colour: {part: fill, values: [red, blue]}
  marks: {kind: independent, part: fill, values: [dots, stripes]}
"""
)
SHORTCUT = CONCEPTS.names.index("marks: stripes")


def truths(n: int, seed: int) -> tuple[Any, Any]:
    """Concept labels (n, 7) and classes (n,): the class follows from shape and dots, nine times in ten."""
    draw = np.random.default_rng(seed)
    shape, colour = draw.integers(3, size=n), draw.integers(2, size=n)
    marks = draw.integers(2, size=(n, 2))
    truth = np.concatenate([np.eye(3)[shape], np.eye(2)[colour], marks], axis=1).astype(np.int8)
    labels = np.where(marks[:, 0] == 1, shape, (shape + colour) % 3)
    labels = np.where(draw.random(n) < 0.1, draw.integers(3, size=n), labels)
    return truth, labels.astype(np.int64)


def readout(scores: Floats, truth: Any, labels: Any, weight: Floats, bias: Floats, **more: Any) -> Readout:
    """A readout with a linear head in the space of logits."""
    head = LinearHead(weight, bias, bypass=False)
    made = Readout(
        CONCEPTS,
        CONCEPTS.classes,
        "single",
        (0.5,) * 3,
        tuple(f"{place}.png" for place in range(len(scores))),
        tuple(f"image {place}" for place in range(len(scores))),
        "logit",
        None,
        scores,
        scores,
        truth,
        labels,
        np.zeros((len(scores), 3)),
        head.logits,
        head,
    )
    return replace(made, **more)


def with_head(scores: Floats, truth: Any, labels: Any) -> Readout:
    """The head that such scores teach, on half of the images; the readout is of the other half."""
    half = len(scores) // 2
    model = LogisticRegression(max_iter=500).fit(scores[:half], labels[:half])
    return readout(scores[half:], truth[half:], labels[half:], model.coef_, model.intercept_)


def scores_of(truth: Any, seed: int, noise: float = 1.0, shared: float = 0.0) -> Floats:
    """Each concept's score says its label and nothing else, with doubt of its own and doubt that all of them share."""
    draw = np.random.default_rng([seed, 1])
    scores: Floats = (
        2.0 * (2 * truth - 1) + draw.normal(0, noise, truth.shape) + shared * draw.normal(size=(len(truth), 1))
    )
    return scores


def clean(n: int = 1200, seed: int = 0, noise: float = 1.0, shared: float = 0.0) -> Readout:
    truth, labels = truths(n, seed)
    return with_head(scores_of(truth, seed, noise, shared), truth, labels)


def leaky(n: int = 1200, seed: int = 0, size: float = 1.5) -> Readout:
    """Every score also carries the class: a little for each, much together."""
    truth, labels = truths(n, seed)
    hint = np.random.default_rng([seed, 2]).normal(0, size, (3, truth.shape[1]))
    return with_head(scores_of(truth, seed) + hint[labels], truth, labels)


def shortcut(n: int = 1200, seed: int = 0) -> Readout:
    """One concept, of no use in truth, carries whether the class is `one`, whatever its own label."""
    truth, labels = truths(n, seed)
    scores = scores_of(truth, seed)
    noise = np.random.default_rng([seed, 3]).normal(0, 0.5, len(labels))
    scores[:, SHORTCUT] = 3.0 * (2 * (labels == 0) - 1) + noise
    return with_head(scores, truth, labels)


def in_probabilities(made: Readout) -> Readout:
    """The same concepts, read by the head as probabilities."""
    return replace(made, space="probability", bottleneck=concept_probabilities_of(made.concept_logits, CONCEPTS))
