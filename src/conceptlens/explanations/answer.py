"""One image → all that is said about it. The only place that turns a model's output into an answer.

`predict`, `explain`, the pages, a report's stories, studies and the check of an exported file are projections of an
`Answer`. One forward pass answers a batch, and each Grad-CAM map takes a backward pass. What is not asked for costs
nothing: the reference sample is read when a sentence or a decomposition is first looked at, maps are made on request.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.dataset import Task
from conceptlens.data.loading.transfer import fetch, send
from conceptlens.explanations.argument import Argument, argue
from conceptlens.explanations.caution import UNLIKE, Caution, set_words
from conceptlens.explanations.document import Account, AnyMap, ClassReading, ConceptReading, LogitDecomposition
from conceptlens.explanations.logit_decomposition import decompose_logit
from conceptlens.explanations.maps.gradcam import Watched, watch
from conceptlens.explanations.reference import Background, background
from conceptlens.explanations.subjects import Images, Subject, choose_subjects
from conceptlens.methods.contract import ConceptOutput, Pipeline
from conceptlens.methods.linear_head import LinearHead
from conceptlens.nn.heads.probabilities import class_probabilities, concept_probabilities_of
from conceptlens.runs.image_distribution import image_vectors
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.saved import Card
from conceptlens.runs.verdicts import map_captions

BATCH = 32
Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
MapName = Literal["evidence", "attention", "gradcam", "index", "assignment"]
NO_CAUTION = Caution()
NO_TURN: AbstractContextManager[Any] = nullcontext()


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


class Seen:
    """Images that went through the model. Their scores are on the way to the machine's memory from the start: on a GPU
    they do not wait for the pass of other images that is ordered before they are asked for.

    Args:
        output: What the pipeline put out for them.
        grid: Rows and columns of the patches.
    """

    def __init__(self, output: ConceptOutput, grid: tuple[int, int]) -> None:
        self.output, self.grid = output, grid
        numbers = {
            "logits": output.logits,
            "concept_logits": output.concept_logits,
            "bottleneck": output.bottleneck,
            "context": output.context,
            "vectors": None if output.patches is None else image_vectors(output.patches),
        }
        self._numbers = {name: fetch(each) for name, each in numbers.items() if each is not None}
        self._there = torch.cuda.Event() if output.logits.is_cuda else None  # type: ignore[no-untyped-call]
        if self._there:
            self._there.record()

    def scores(self) -> dict[str, Any]:
        """What `Answerer.from_scores` takes."""
        if self._there:
            self._there.synchronize()
        types = {"bottleneck": torch.float64, "context": torch.float16}
        return {name: each.to(types.get(name, torch.float32)).numpy() for name, each in self._numbers.items()}


class Answerer:
    """Answers for batches of images with one model.

    Args:
        pipeline: In evaluation mode, its parameters at rest.
        card: Classes, task, thresholds, image size.
        concepts: Those it was trained with.
        reference: What images are compared with, or how to get it when it is first needed.
        caution: What warns of an answer; nothing by default.
        captions: What to write under maps, by kind (see `runs.verdicts`).
    """

    def __init__(
        self,
        pipeline: Pipeline,
        card: Card,
        concepts: ConceptSet,
        reference: Background | Callable[[], Background] | None = None,
        caution: Caution = NO_CAUTION,
        captions: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.pipeline, self.card, self.caution, self.map_captions = pipeline, card, caution, dict(captions)
        self.concepts = concepts if pipeline.model.reads_concepts else ConceptSet("none", (), (), ())
        self._reference = reference

    @classmethod
    def of(cls, run: OpenedRun, *, keep: bool = False) -> "Answerer":
        """For an opened run; `keep` writes its reference to the run folder, for later calls."""
        caution = Caution.read(run.path, run.card)
        reference = lambda: background(run, keep=keep)  # noqa: E731 - read when it is first needed
        captions = map_captions(run.path, evidence=run.pipeline.model.has_evidence)
        return cls(run.pipeline, run.card, run.concepts, reference, caution, captions)

    @cached_property
    def background(self) -> Background:
        """What images are compared with."""
        if self._reference is None:
            return Background.zero(len(self.concepts), "none was given")
        return self._reference() if callable(self._reference) else self._reference

    @cached_property
    def seen(self) -> npt.NDArray[np.bool_]:
        """Whether any training image is labeled with each concept (K,); all, where labels or counts are unknown."""
        counts = self.card.concept_counts
        return np.array(counts) != 0 if len(counts) == len(self.concepts) else np.ones(len(self.concepts), dtype=bool)

    @cached_property
    def _slots(self) -> list[int] | None:
        slots = getattr(self.pipeline.model, "concept_slot", None)
        return slots.tolist() if isinstance(slots, Tensor) else None

    def slot(self, concept: int) -> int | None:
        """The slot that a concept reads; None for methods without slots."""
        return None if self._slots is None else int(self._slots[concept])

    def stream(
        self,
        subjects: Iterable[Subject],
        *,
        maps: Sequence[MapName] = (),
        concepts: Sequence[int] | None = None,
        batch: int = BATCH,
    ) -> Iterator[Answer]:
        """Answers in the order of the images, one batch in memory at a time."""
        rest = iter(subjects)
        while some := list(islice(rest, batch)):
            yield from self.batch(some, maps=maps, concepts=concepts)

    def batch(
        self,
        subjects: Sequence[Subject],
        *,
        maps: Sequence[MapName] = (),
        concepts: Sequence[int] | None = None,
        strict: bool = True,
        turn: AbstractContextManager[Any] = NO_TURN,
    ) -> list[Answer]:
        """Answers of one batch; an image that could not be read carries its error.

        Args:
            subjects: The images.
            maps: The maps that are wanted.
            concepts: Whose Grad-CAM is wanted, if they have a place; those that decided each image by default.
            strict: Refuse an encoder that Grad-CAM cannot follow; otherwise `without` says why there is none.
            turn: Entered for the pass alone: a lock, where several threads ask one model.
        """
        readable = [subject for subject in subjects if subject.pixels is not None]
        answers = iter(self._answer(readable, maps, concepts, strict, turn) if readable else ())
        return [self._unreadable(subject) if subject.pixels is None else next(answers) for subject in subjects]

    def _look(self, subjects: Sequence[Subject]) -> "Seen":
        with torch.inference_mode():
            tokens = self.pipeline.encoder(self._pixels(subjects))
            return Seen(self.pipeline.read(tokens), tokens.grid)

    def _pixels(self, subjects: Sequence[Subject]) -> Tensor:
        stack = np.stack([subject.pixels for subject in subjects if subject.pixels is not None])
        return send(torch.from_numpy(stack), next(self.pipeline.parameters()).device).contiguous()

    def _answer(
        self,
        subjects: Sequence[Subject],
        maps: Sequence[MapName],
        concepts: Sequence[int] | None,
        strict: bool,
        turn: AbstractContextManager[Any],
    ) -> list[Answer]:
        watched: Watched | None = None
        why: str | None = None
        if "gradcam" in maps:
            why = None if self.concepts.concepts else "this method reads no concepts"
            try:
                watched = watch(self.pipeline, self._pixels(subjects)) if why is None else None
            except UserError as error:
                if strict:
                    raise
                why = str(error)
        with turn:
            seen = Seen(watched.output, watched.grid) if watched else self._look(subjects)
        answers = self.from_scores(
            subjects, head=Head(self.pipeline, seen.output.bottleneck, seen.output.logits), **seen.scores()
        )
        if maps:
            for row, answer in enumerate(answers):
                answer.maps = self._maps(seen.output, row, seen.grid, maps)
        if why:
            for answer in answers:
                assert answer.maps is not None
                answer.maps.without["gradcam"] = why
        if watched:
            _add_gradcam(watched, answers, concepts)
        return answers

    def from_scores(
        self,
        subjects: Sequence[Subject],
        *,
        logits: Singles,
        concept_logits: Singles,
        bottleneck: Floats,
        context: npt.NDArray[np.float16] | None = None,
        head: Head,
        vectors: Singles | None = None,
    ) -> list[Answer]:
        """Answers from scores (N, …), as a run keeps them of its images; without maps."""
        whole = np.isfinite(logits).all(1) & np.isfinite(concept_logits).all(1)
        if not whole.all():
            raise UserError(
                f"{subjects[int(whole.argmin())].image}: the model's scores of this image are not finite, so there is "
                "no answer. Its training diverged or its weights are damaged: train it again."
            )
        probabilities = class_probabilities(logits, self.card.task)
        read = concept_probabilities_of(concept_logits, self.concepts)
        unlike, distances = self.caution.unlike(vectors), self.caution.distances(vectors)
        return [
            Answer(
                subject,
                self,
                head,
                logits[row],
                probabilities[row],
                concept_logits[row],
                read[row],
                bottleneck[row],
                None if context is None else context[row],
                None if unlike is None else unlike[row],
                None if distances is None else distances[row],
            )
            for row, subject in enumerate(subjects)
        ]

    def _unreadable(self, subject: Subject) -> Answer:
        single, double = np.zeros(0, dtype=np.float32), np.zeros(0)
        return Answer(subject, self, None, single, double, single, double, double)

    def _maps(self, output: ConceptOutput, row: int, grid: tuple[int, int], wanted: Sequence[MapName]) -> AnswerMaps:
        maps = AnswerMaps(grid)
        if "evidence" in wanted:
            maps.evidence, maps.unplaced = _row(output.evidence, row), _row(output.unplaced, row)
            if maps.evidence is None:
                maps.without["evidence"] = "this method's concept logits are not sums over patches"
        if "attention" in wanted:
            maps.attention = _row(output.attention, row)
            if maps.attention is None:
                maps.without["attention"] = "this method reads the image as a whole and has no attention over patches"
        if "assignment" in wanted:
            maps.assignment = _row(output.assignment, row)
        if "index" in wanted:
            if output.codes is None:
                maps.without["index"] = "this run has no codebook"
            else:
                maps.codes = output.codes[row].detach().cpu().numpy()
                maps.code_similarity = _row(similarities(output, self._codebook, row), 0)
        return maps

    @property
    def _codebook(self) -> Tensor | None:
        return getattr(self.pipeline.regularizer, "codebook", None)


def answer(
    run: OpenedRun,
    images: Images = (),
    *,
    maps: Sequence[MapName] = (),
    concepts: Sequence[int] | None = None,
    split: str = "test",
    n: int = 12,
    show: str = "all",
) -> list[Answer]:
    """Everything that a run says about images, in their order.

    Args:
        run: The run.
        images: Files, folders, PIL images, arrays, tensors, a `Dataset` or a `DataLoader` (see `subjects`); none for
            images of the run's own data.
        maps: Of `evidence`, `attention`, `gradcam`, `index` and `assignment`.
        concepts: Whose Grad-CAM is wanted; those that decided each image by default.
        split: Of the run's own data.
        n: At most so many of its images.
        show: Which: `right`, `wrong`, `uncertain` or `all`.
    """
    subjects = choose_subjects(run, images, split=split, n=n, show=show, pictures=False)
    return list(Answerer.of(run).stream(subjects, maps=maps, concepts=concepts))


def _add_gradcam(watched: Watched, answers: Sequence[Answer], concepts: Sequence[int] | None) -> None:
    """Grad-CAM of the concepts, or of those that decided each image."""
    placeless = answers[0].answerer.concepts.placeless
    asked = [answer.deciding if concepts is None else concepts for answer in answers]
    columns = [[k for k in own if not placeless[k]] for own in asked]
    width = max(map(len, columns))
    if width:
        # An image that fewer concepts decided is filled up with any; what is too much is not looked at.
        filled = [(own + [0] * width)[:width] for own in columns]
        numbers = watched.maps(torch.tensor(filled, device=watched.output.concept_logits.device)).float().cpu().numpy()
    for row, (answer, own) in enumerate(zip(answers, columns, strict=True)):
        assert answer.maps is not None
        answer.maps.gradcam_at = watched.place
        if own:
            answer.maps.gradcam = dict(zip(own, numbers[row], strict=False))
        elif concepts is None and not asked[row]:
            answer.maps.without["gradcam"] = "no concept decided this image"


def _row(tensor: Tensor | None, row: int) -> Singles | None:
    return None if tensor is None else tensor[row].detach().float().cpu().numpy()


def similarities(output: ConceptOutput, codebook: Tensor | None, row: int | None = None) -> Tensor | None:
    """The cosine of each patch with its nearest code, (B, L); None where both are not in one space."""
    patches, codes = output.patches, output.codes
    if codes is None or patches is None or codebook is None or codebook.shape[-1] != patches.shape[-1]:
        return None
    rows = slice(None) if row is None else slice(row, row + 1)
    nearest = codebook.detach()[codes[rows]].to(patches.dtype)
    return torch.nn.functional.cosine_similarity(patches[rows].detach(), nearest, dim=-1).float().cpu()


def class_readings(
    task: Task, classes: Sequence[str], thresholds: Sequence[float], probabilities: Floats, logits: Floats
) -> list[ClassReading]:
    """What a model gives to each class; thresholds are a matter of multi-label tasks."""
    cuts: Sequence[float | None] = thresholds if task == "multilabel" else [None] * len(classes)
    return [
        ClassReading(name=name, probability=share, logit=logit, threshold=cut)
        for name, share, logit, cut in zip(classes, probabilities.tolist(), logits.tolist(), cuts, strict=True)
    ]
