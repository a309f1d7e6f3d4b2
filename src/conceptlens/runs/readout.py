"""What the class head reads of each image, and what it says: from the scores that a run keeps, without its encoder.

A run keeps concept and class logits, and what `decide` reads where that is not the concept logits. (Runs of older
versions do not; it then follows from the space that the method declares.) It is checked against the class logits: what
a declared bypass adds to them (PCBM-h's residual, say) is what the concepts leave unexplained. It belongs to the image
and stays, whatever is done to the concepts. A head that reads its concepts through something of the image (CEM's
embeddings, between which a concept chooses) gets that back with whatever is put in their place.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.methods.linear_head import LinearHead
from conceptlens.nn.heads.bottleneck import log_probability
from conceptlens.nn.heads.probabilities import class_probabilities, concept_labels_of, concept_probabilities_of
from conceptlens.runs.predictions import StoredPredictions
from conceptlens.stats.finite import finite
from conceptlens.stats.weighted import mean_known

if TYPE_CHECKING:
    from conceptlens.data.dataset import Task
    from conceptlens.methods.contract import ConceptModel, Space

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
CHUNK = 65_536  # rows that the head reads at a time
TOLERANCE = 0.05  # of the logits' spread; predictions in half precision stay well below


@dataclass(frozen=True)
class TrainingLabels:
    """What a run's training images are labeled as."""

    concepts: npt.NDArray[np.int8]  # (T, K)
    labels: Indices  # (T,), or (T, C) for a multi-label task

    @property
    def targets(self) -> list[Indices]:
        return split_targets(self.labels)


def split_targets(labels: Indices) -> list[Indices]:
    """Questions about the class with one answer each, (N,): one, or one for each label of a multi-label task."""
    return [labels] if labels.ndim == 1 else list(labels.T)


@dataclass(frozen=True)
class Readout:
    """N images as the class head sees them, and what is true of them."""

    concepts: ConceptSet
    classes: tuple[str, ...]
    task: "Task"
    thresholds: tuple[float, ...]
    ids: tuple[str, ...]
    units: tuple[str, ...]  # what is drawn together when images are drawn again
    space: "Space"
    bypass: str | None  # in words
    bottleneck: Floats  # (N, K)
    concept_logits: Floats  # (N, K)
    truth: npt.NDArray[np.int8]  # (N, K) of 0, 1, UNKNOWN
    labels: Indices  # (N,), or (N, C) for a multi-label task
    rest: Floats  # (N, C): what the bypass adds to the logits
    decide: Callable[[Floats], Floats]  # (n, K) → (n, C): what the concepts alone say
    head: LinearHead | None = None  # where `decide` is linear
    context: npt.NDArray[np.float16] | None = None  # (N, E): through which the head reads the concepts of an image
    decide_within: Callable[[Floats, npt.NDArray[np.float16]], Floats] | None = None  # (n, K), (n, E) → (n, C)
    answers: Floats | None = None  # (2, K, K): what the model learned to read where a person answers, see ConceptModel
    training: Callable[[], TrainingLabels | None] | None = None  # of the run, where its data is there

    def __len__(self) -> int:
        return len(self.bottleneck)

    def logits(self, bottleneck: Floats, rows: Indices | slice = slice(None)) -> Floats:
        """What the model says of these images (n, C) if its head reads this (n, K)."""
        if self.context is not None and self.decide_within is not None:
            return self.decide_within(bottleneck, self.context[rows]) + self.rest[rows]
        return self.decide(bottleneck) + self.rest[rows]

    def probabilities(self, logits: Floats) -> Floats:
        return class_probabilities(logits, self.task)

    @property
    def concept_probabilities(self) -> Floats:
        """What the model says of the concepts, (N, K)."""
        return concept_probabilities_of(self.concept_logits, self.concepts)

    @cached_property
    def read_labels(self) -> npt.NDArray[np.int8]:
        """The labels (N, K) that the model gives the concepts itself."""
        return concept_labels_of(self.concept_logits, self.concepts)

    def said(self, logits: Floats) -> Indices:
        """The decision: a class (n,), or a yes or no for each (n, C)."""
        if self.task == "multilabel":
            return (self.probabilities(logits) >= np.asarray(self.thresholds)).astype(np.int64)
        return np.asarray(logits.argmax(1))

    def hits(self, logits: Floats, rows: Indices | slice = slice(None)) -> Floats:
        """1 where the decision is right, 0 where wrong, NaN where nobody knows; of several labels, the share right."""
        labels, said = self.labels[rows], self.said(logits)
        right = np.where(labels == UNKNOWN, np.nan, said == labels)
        return right if right.ndim == 1 else mean_known(right)

    @cached_property
    def bypass_share(self) -> float | None:
        """How much of what moves the class scores from image to image is the bypass: 0 nothing, 1 everything.

        Both parts less their means over images and over classes; the share of the sum of their sizes. None without a
        bypass, and for one that adds nothing of its own (CEM's embeddings change what the concepts say): then `rest` is
        rounding.
        """
        if self.bypass is None or self.context is not None or not self.rest.any():
            return None
        parts = (self.logits(self.bottleneck) - self.rest, self.rest)
        concepts, rest = (np.abs(part - part.mean(0) - (part - part.mean(0)).mean(1, keepdims=True)) for part in parts)
        return float(rest.sum() / max(rest.sum() + concepts.sum(), 1e-12))

    def describe_bypass(self, words: str) -> str:
        """A sentence that names the bypass in place of `{}`, and its share where it can be told."""
        share = self.bypass_share
        more = "" if share is None else f" It makes up {share:.0%} of what moves the class scores from image to image."
        return f"{words.format(self.bypass)}{more}"

    @property
    def targets(self) -> list[Indices]:
        """Questions about the class with one answer each, (N,)."""
        return split_targets(self.labels)


def read_out(model: "ConceptModel", stored: StoredPredictions, concepts: ConceptSet) -> Readout:
    """What a model's head read when these predictions were made.

    Raises:
        UserError: The method reads no concepts, or its head reads something that does not follow from their scores.
    """
    if not model.reads_concepts:
        raise UserError(
            "This method reads no concepts, so there is nothing to correct and nothing to leak through. Choose a run "
            "of a method that does, such as ivq-cbm or cbm."
        )
    scores = finite(stored.concept_logits.astype(np.float64), "concept scores")
    said = finite(stored.logits.astype(np.float64), "class scores")
    if scores.shape[1] != len(concepts):
        raise UserError(f"The run keeps scores of {scores.shape[1]} concepts, its concept file has {len(concepts)}.")
    if stored.bottleneck is not None:
        bottleneck = finite(stored.bottleneck.astype(np.float64), "bottleneck")
    else:
        bottleneck = concept_probabilities_of(scores, concepts) if "probability" in model.space else scores
        if model.space == "log-probability":
            exclusive = torch.as_tensor(concepts.exclusive)
            bottleneck = log_probability(torch.from_numpy(bottleneck), exclusive).numpy()
    model = model.eval()
    parameter = next(iter([*model.parameters(), *model.buffers()]), torch.zeros(()))

    def placed(rows: npt.NDArray[np.floating]) -> Tensor:
        return torch.from_numpy(rows).to(parameter.device, torch.float32)

    def chunks(rows: Floats) -> list[slice]:
        return [slice(start, start + CHUNK) for start in range(0, max(len(rows), 1), CHUNK)]

    @torch.inference_mode()
    def decide(rows: Floats) -> Floats:
        return torch.cat([model.decide(placed(rows[part])) for part in chunks(rows)]).double().cpu().numpy()

    @torch.inference_mode()
    def decide_within(rows: Floats, context: npt.NDArray[np.float16]) -> Floats:
        pieces = [model.decide_within(placed(rows[part]), placed(context[part])) for part in chunks(rows)]
        return torch.cat(pieces).double().cpu().numpy()

    try:
        alone = decide(bottleneck)
    except RuntimeError:
        alone = np.full(said.shape, np.inf)
    far = np.abs(said - alone).max(initial=0.0) > TOLERANCE * max(float(said.std()), 1e-6)
    if not np.isfinite(alone).all() or (far and model.bypass is None):
        raise UserError(
            f"{type(model).__name__}: its class head reads something that does not follow from the concept scores in "
            f"its space ({model.space}), and it declares no bypass, so concepts cannot be set in this run's scores."
        )
    few = torch.from_numpy(bottleneck[:64]).to(parameter.device, torch.float32)
    linear = LinearHead.of(model, few, torch.from_numpy(alone[:64])) if len(few) else None
    base = alone if stored.context is None else decide_within(bottleneck, stored.context)
    answers: Tensor | None = getattr(model, "answers", None)
    return Readout(
        concepts,
        stored.classes,
        stored.task,
        stored.thresholds,
        stored.ids,
        stored.units,
        model.space,
        model.bypass,
        bottleneck,
        scores,
        stored.concepts,
        stored.labels,
        np.zeros_like(said) if model.bypass is None else said - base,
        decide,
        linear,
        stored.context,
        decide_within,
        None if answers is None else answers.detach().double().cpu().numpy(),
    )
