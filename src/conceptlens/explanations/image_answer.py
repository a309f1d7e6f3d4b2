"""All that is said about one image. `predict`, `explain`, the pages, a report's stories, studies and the check of an
exported file are projections of an `Answer`; `explanations.answer` makes it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.data.dataset import Task
from conceptlens.explanations.argument import Argument, argue
from conceptlens.explanations.caution import UNLIKE, set_words
from conceptlens.explanations.document import Account, AnyMap, ClassReading, ConceptReading, LogitDecomposition
from conceptlens.explanations.logit_decomposition import decompose_logit
from conceptlens.explanations.subjects import Subject
from conceptlens.methods.contract import Pipeline
from conceptlens.methods.linear_head import LinearHead
from conceptlens.runs.saved import Card

if TYPE_CHECKING:
    from conceptlens.explanations.answer import Answerer

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Doubt:
    """How far the model is from saying something else.

    Attributes:
        margin: Between the two likeliest classes; of a multi-label task, the distance of the nearest class to its
            threshold.
        entropy: Of the classes, in nats; of a multi-label task, the sum over its labels.
    """

    margin: float
    entropy: float


@dataclass
class AnswerMaps:
    """Numbers for each of L patches, as far as they were asked for and exist."""

    grid: tuple[int, int]
    evidence: Singles | None = None  # (K, L), signed: Σ_l evidence + unplaced = concept logit
    unplaced: Singles | None = None  # (K,)
    attention: Singles | None = None  # (S, L)
    assignment: Singles | None = None  # (L, S)
    codes: npt.NDArray[np.int64] | None = None  # (L,) nearest codes
    code_similarity: Singles | None = None  # (L,) cosine with the nearest code
    gradcam: dict[int, Singles] = field(default_factory=dict)  # (L,) by concept
    gradcam_at: str | None = None  # where Grad-CAM was taken
    without: dict[AnyMap, str] = field(default_factory=dict)  # maps that were asked for and do not exist, and why


class Head:
    """The class head as images showed it, looked at when it is first asked for.

    Args:
        pipeline: Whose head it is.
        bottleneck: (N, K) what it read.
        logits: (N, C) what it said; None for scores that were kept in half precision, of which sums are not checked.
    """

    def __init__(self, pipeline: Pipeline, bottleneck: Tensor, logits: Tensor | None) -> None:
        self._seen = pipeline.model, bottleneck.detach(), None if logits is None else logits.detach()

    @cached_property
    def linear(self) -> LinearHead | None:
        return LinearHead.of(*self._seen)


@dataclass(eq=False, repr=False)
class Answer:
    """All that is said about one image.

    Attributes:
        subject: The image, and what is known of it.
        logits: (C,) of the classes.
        probabilities: (C,).
        concept_logits: (K,).
        concept_probabilities: (K,).
        bottleneck: (K,) what the class head read.
        context: (E,) what the head reads of the image besides, of methods such as CEM.
        unlike_training: Whether the image is unlike the training images; None where that is not known.
        distance: From the training images, relative to the bound beyond which it is unlike them; None likewise.
        maps: None where no map was asked for.
    """

    subject: Subject
    answerer: "Answerer"
    head: Head | None
    logits: Singles
    probabilities: Floats
    concept_logits: Singles
    concept_probabilities: Floats
    bottleneck: Floats
    context: npt.NDArray[np.float16] | None = None
    unlike_training: bool | None = None
    distance: float | None = None
    maps: AnswerMaps | None = None

    def __repr__(self) -> str:
        return f"Answer({self.image!r}, {self.error or self.predicted})"

    @property
    def image(self) -> str:
        """Its name."""
        return self.subject.image

    @property
    def error(self) -> str | None:
        """Why the image could not be read; nothing else is then known."""
        return self.subject.error

    @property
    def truth(self) -> list[str] | None:
        return self.subject.truth

    @property
    def bypass(self) -> str | None:
        """What reaches the class besides the concepts, in words."""
        return self.answerer.pipeline.model.bypass

    @property
    def _card(self) -> Card:
        return self.answerer.card

    @cached_property
    def predicted(self) -> list[str]:
        """One class, or those at or above their thresholds in a multi-label task."""
        card = self._card
        if card.task == "multilabel":
            cuts = zip(card.classes, self.probabilities, card.thresholds, strict=True)
            return [name for name, share, cut in cuts if share >= cut]
        return [card.classes[self.about]]

    @property
    def about(self) -> int:
        """The class that is explained: the likeliest, or the one farthest above its threshold."""
        if self._card.task == "multilabel":
            return int((self.probabilities - np.asarray(self._card.thresholds)).argmax())
        return int(self.probabilities.argmax())

    @property
    def rival(self) -> int | None:
        """The class it is set against: the second likeliest; none in a multi-label task."""
        if self._card.task == "multilabel" or len(self.probabilities) < 2:
            return None
        return int(np.argsort(-self.probabilities, kind="stable")[1])

    @property
    def about_class(self) -> str:
        return self._card.classes[self.about]

    @property
    def rival_class(self) -> str | None:
        return None if self.rival is None else self._card.classes[self.rival]

    @property
    def doubt(self) -> Doubt:
        shares = self.probabilities
        if self._card.task == "multilabel":
            margin = float(np.abs(shares - np.asarray(self._card.thresholds)).min())
            shares = np.concatenate((shares, 1 - shares))
        else:
            margin = float(shares[self.about] - (0 if self.rival is None else shares[self.rival]))
        held = shares[shares > 0]
        return Doubt(margin, float(-(held * np.log(held)).sum()))

    @cached_property
    def prediction_set(self) -> list[str] | None:
        """The classes that cannot be excluded: 9 of 10 images like those of training have theirs among them.

        Empty where no class fits; None for a run that cannot tell.
        """
        return self.answerer.caution.prediction_set(self._card.classes, self.probabilities)

    @property
    def cautions(self) -> list[str]:
        """What warns of the answer, in words: an image unlike the training images, and the prediction set."""
        several = self._card.task == "multilabel"
        held = set_words(self.prediction_set, len(self._card.classes), several=several)
        return [words for words in (UNLIKE if self.unlike_training else None, held) if words]

    @property
    def classes(self) -> list[ClassReading]:
        """What the model gives to each class."""
        card = self._card
        logits = self.logits.astype(np.float64)
        return class_readings(card.task, card.classes, card.thresholds, self.probabilities, logits)

    @property
    def concepts(self) -> list[ConceptReading]:
        """What the model reads of each concept, in the order of the bottleneck."""
        vocabulary = self.answerer.concepts
        if not vocabulary.concepts:
            return []  # the data may have labels all the same
        labels = self.subject.labels or [-1] * len(vocabulary)
        applies = vocabulary.applying(vocabulary.held(self.concept_probabilities)).tolist()
        scores, read = self.concept_logits.tolist(), self.concept_probabilities.tolist()
        rows = zip(vocabulary.concepts, scores, read, labels, applies, self.answerer.seen.tolist(), strict=True)
        return [
            ConceptReading(
                name=concept.name,
                group=concept.group,
                value=concept.value,
                text=concept.text,
                part=concept.part,
                score=score,
                probability=share,
                label=None if label < 0 else label == 1,
                applies=applied,
                seen=seen,
                placeless=concept.placeless,
            )
            for concept, score, share, label, applied, seen in rows
        ]

    def slot(self, concept: int) -> int | None:
        """The slot that a concept reads; None for methods without slots."""
        return self.answerer.slot(concept)

    @cached_property
    def _argument(self) -> Argument:
        return self.argue(self.about, self.rival)

    def argue(self, about: int, rival: int | None) -> Argument:
        """What speaks for one class, set against another."""
        if self.head is None:
            raise UserError(f"{self.image}: there is nothing to explain: {self.error}")
        return argue(
            self._card.classes,
            self.answerer.concepts,
            self.answerer.background,
            self.head.linear,
            self.bypass,
            logits=self.logits.astype(np.float64),
            probabilities=self.probabilities,
            concept_probabilities=self.concept_probabilities,
            bottleneck=self.bottleneck,
            says=bool(self.predicted),
            about=about,
            rival=rival,
            seen=self.answerer.seen,
        )

    @property
    def decompositions(self) -> list[LogitDecomposition]:
        """How the logits of the explained class and of its rival are made up; empty without a linear head."""
        return self._argument.decompositions

    @property
    def account(self) -> Account:
        """What speaks for the explained class against its rival: what sentence and charts tell."""
        return self._argument.account

    @property
    def sentence(self) -> str:
        return self._argument.sentence

    @property
    def deciding(self) -> list[int]:
        """The concepts that decided, weightiest first."""
        return self._argument.deciding

    def decomposition(self, of: int, minus: int | str | None) -> LogitDecomposition | None:
        """How the logit of any class, or its difference to another's or to the mean, is made up."""
        head = None if self.head is None else self.head.linear
        if head is None:
            return None
        reference, logits = self.answerer.background.bottleneck, self.logits.astype(np.float64)
        return decompose_logit(head, self._card.classes, of, minus, self.bottleneck, reference, logits)


def class_readings(
    task: Task, classes: Sequence[str], thresholds: Sequence[float], probabilities: Floats, logits: Floats
) -> list[ClassReading]:
    """What a model gives to each class; thresholds are a matter of multi-label tasks."""
    cuts: Sequence[float | None] = thresholds if task == "multilabel" else [None] * len(classes)
    return [
        ClassReading(name=name, probability=share, logit=logit, threshold=cut)
        for name, share, logit, cut in zip(classes, probabilities.tolist(), logits.tolist(), cuts, strict=True)
    ]
