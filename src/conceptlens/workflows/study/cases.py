"""The images of a study with a concept and its map each: what the model shows, before anything is shuffled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.dataset import DataSource
from conceptlens.data.images.read import resize_square
from conceptlens.explanations.answer import Answerer
from conceptlens.explanations.image_answer import Answer
from conceptlens.explanations.subjects import Subject
from conceptlens.runs.image_choice import Indices
from conceptlens.runs.opened import OpenedRun
from conceptlens.workflows.study.sampling import draw_concepts

BATCH = 16
MapKind = Literal["evidence", "attention", "gradcam"]
Floats = npt.NDArray[np.float64]
Question = Literal["choice", "likert"]
QUESTIONS: tuple[Question, ...] = ("choice", "likert")


@dataclass(frozen=True)
class Case:
    """One image."""

    name: str
    class_name: str | None
    picture: Image.Image
    present: npt.NDArray[np.bool_]  # (K,)
    asked: dict[Question, int]  # the concept of each question, two groups: neither question answers the other
    grids: dict[Question, Floats]  # their maps (h, w), numbers ≥ 0


def find_cases(
    run: OpenedRun,
    indices: Indices,
    n: int,
    *,
    wanted: Sequence[int],
    kind: MapKind,
    side: int,
    generator: np.random.Generator,
) -> list[Case]:
    """The first n images, in the order given, of which the model asserts a wanted concept that their labels allow."""
    answerer, source, concepts = Answerer.of(run), run.source, run.concepts
    shown: list[_Shown] = []
    for start in range(0, len(indices), BATCH):
        if len(shown) >= n:
            break
        shown += _batch(answerer, source, indices[start : start + BATCH], wanted, kind, side)
    shown = shown[:n]
    chosen = _two_questions([image.allowed for image in shown], concepts, generator)
    cases: list[Case] = []
    for image, asked in zip(shown, chosen, strict=True):
        label = source.examples.labels[image.index]
        known = np.ndim(label) == 0 and label >= 0
        name = source.classes[int(label)] if known else None
        grids = {question: image.maps[k] for question, k in asked.items()}
        cases.append(Case(image.answer.image, name, image.picture, image.present, asked, grids))
    return cases


def _two_questions(
    allowed: Sequence[Sequence[int]], concepts: ConceptSet, generator: np.random.Generator
) -> list[dict[Question, int]]:
    """A concept for each question about each image, of different groups; an image with one group gets one question."""
    first = draw_concepts(allowed, generator)
    rest = [
        [k for k in each if one is not None and concepts.group_of[k] != concepts.group_of[one]]
        for each, one in zip(allowed, first, strict=True)
    ]
    second = draw_concepts(rest, generator)
    found: list[dict[Question, int]] = []
    for n, (one, two) in enumerate(zip(first, second, strict=True)):
        assert one is not None  # images without a concept are left out before
        if two is None:
            found.append({QUESTIONS[n % 2]: one})
        else:
            found.append({"choice": one, "likert": two})
    return found


@dataclass(frozen=True)
class _Shown:
    """An image of which the model asserts something."""

    index: int
    answer: Answer
    picture: Image.Image
    allowed: list[int]  # concepts that may be asked about
    present: npt.NDArray[np.bool_]  # (K,)
    maps: dict[int, Floats]  # (h, w) of the wanted concepts


def _batch(
    answerer: Answerer, source: DataSource, indices: Indices, wanted: Sequence[int], kind: MapKind, side: int
) -> Iterator[_Shown]:
    card, images = answerer.card, [source.read(int(index)) for index in indices]
    subjects = [
        Subject(
            source.examples.ids[index],
            resize_square(image, card.image_size, card.fit),
            labels=source.examples.concepts[index].tolist(),
        )
        for index, image in zip(indices.tolist(), images, strict=True)
    ]
    answers = answerer.batch(subjects, maps=(kind,), concepts=wanted)
    for index, image, answer in zip(indices.tolist(), images, answers, strict=True):
        maps = _maps(answer, wanted)
        labels = source.examples.concepts[index]
        asserted = answerer.concepts.held(answer.concept_probabilities)
        # An empty map shows nothing.
        allowed = [k for k in wanted if asserted[k] and labels[k] != 0 and maps[k].max() > 0]
        if allowed:
            square = resize_square(image, min(side, max(image.size)), card.fit).transpose(1, 2, 0)
            present = np.where(labels >= 0, labels == 1, asserted)
            yield _Shown(index, answer, Image.fromarray(np.ascontiguousarray(square)), allowed, present, maps)


def _maps(answer: Answer, wanted: Sequence[int]) -> dict[int, Floats]:
    """The maps (h, w) of the wanted concepts, of the one kind that was asked for; of evidence what speaks for each.

    What speaks against a concept is left out: raters are asked what the bright places show, and a map in two colors
    would tell them whose it is.
    """
    maps = answer.maps
    assert maps is not None
    if "evidence" in maps.without:
        raise UserError("This method has no evidence of patches. Use --map attention or --map gradcam.")
    if "attention" in maps.without:
        raise UserError("This method has no attention over patches. Use --map gradcam.")
    rows = maps.gradcam
    if maps.evidence is not None:
        rows = {k: maps.evidence[k].clip(0) for k in wanted}
    elif maps.attention is not None:
        slots = {k: answer.slot(k) for k in wanted}
        rows = {k: maps.attention[slot] for k, slot in slots.items() if slot is not None}
    return {k: row.astype(np.float64).reshape(maps.grid) for k, row in rows.items()}
