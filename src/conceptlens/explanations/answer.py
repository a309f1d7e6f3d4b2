"""From images to answers, a batch at a time: the only place that turns a model's output into an `Answer`.

One forward pass answers a batch, and each Grad-CAM map takes a backward pass. What is not asked for costs nothing: the
reference sample is read when a sentence or a decomposition is first looked at, maps are made on request.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
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
from conceptlens.data.loading.transfer import fetch, send
from conceptlens.explanations.caution import Caution
from conceptlens.explanations.image_answer import Answer, AnswerMaps, Floats, Head, Singles
from conceptlens.explanations.maps.gradcam import Watched, watch
from conceptlens.explanations.reference import Background, background
from conceptlens.explanations.subjects import Images, Subject, choose_subjects
from conceptlens.methods.contract import ConceptOutput, Pipeline
from conceptlens.nn.heads.probabilities import class_probabilities, concept_probabilities_of
from conceptlens.runs.image_distribution import image_vectors
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.saved import Card
from conceptlens.runs.verdicts import map_captions

BATCH = 32
MapName = Literal["evidence", "attention", "gradcam", "index", "assignment"]
NO_CAUTION = Caution()
NO_TURN: AbstractContextManager[Any] = nullcontext()


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
