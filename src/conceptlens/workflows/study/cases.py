"""The images of a study with a concept and its map each: what the model shows, before anything is shuffled."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.dataset import DataSource
from conceptlens.data.images.read import resize_square
from conceptlens.encoders.text.hashed import NEGATIONS
from conceptlens.explanations.maps.gradcam import watch
from conceptlens.methods.contract import Pipeline
from conceptlens.nn.heads.probabilities import concept_probabilities
from conceptlens.runs.images import Indices
from conceptlens.runs.saved import Card
from conceptlens.workflows.study.sampling import draw_concepts

BATCH = 16
ABSENT = NEGATIONS | {"nil", "absence", "unknown", "false"}
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
    asked: dict[Question, int]  # the concept of each question, two axes: neither question answers the other
    grids: dict[Question, Floats]  # their maps (h, w), numbers ≥ 0


def has_a_place(concepts: ConceptSet) -> list[int]:
    """Concepts that can be pointed at: the absence of something is nowhere."""
    return [
        k
        for k, each in enumerate(concepts.concepts)
        if not ABSENT & set(each.value.lower().split()) and not ABSENT & set(each.text.lower().split())
    ]


def find_cases(
    pipeline: Pipeline,
    card: Card,
    concepts: ConceptSet,
    source: DataSource,
    indices: Indices,
    n: int,
    *,
    wanted: Sequence[int],
    kind: str,
    side: int,
    generator: np.random.Generator,
) -> list[Case]:
    """The first n images, in the order given, of which the model asserts a wanted concept that their labels allow."""
    found: list[tuple[int, Image.Image, list[int], npt.NDArray[np.bool_], Floats]] = []
    for start in range(0, len(indices), BATCH):
        if len(found) >= n:
            break
        found += _batch(pipeline, card, concepts, source, indices[start : start + BATCH], wanted, kind, side)
    found = found[:n]
    chosen = _two_questions([allowed for _, _, allowed, _, _ in found], concepts, generator)
    cases: list[Case] = []
    for (index, picture, _, present, maps), asked in zip(found, chosen, strict=True):
        label = source.examples.labels[index]
        known = np.ndim(label) == 0 and label >= 0
        name = source.classes[int(label)] if known else None
        grids = {question: maps[list(wanted).index(k)] for question, k in asked.items()}
        cases.append(Case(source.examples.ids[index], name, picture, present, asked, grids))
    return cases


def _two_questions(
    allowed: Sequence[Sequence[int]], concepts: ConceptSet, generator: np.random.Generator
) -> list[dict[Question, int]]:
    """A concept for each question about each image, of different axes; an image with one axis gets one question."""
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


def _batch(
    pipeline: Pipeline,
    card: Card,
    concepts: ConceptSet,
    source: DataSource,
    indices: Indices,
    wanted: Sequence[int],
    kind: str,
    side: int,
) -> Iterator[tuple[int, Image.Image, list[int], npt.NDArray[np.bool_], Floats]]:
    images = [source.read(int(index)) for index in indices]
    device = next(pipeline.parameters()).device
    pixels = torch.from_numpy(np.stack([resize_square(image, card.image_size, card.fit) for image in images]))
    columns = torch.tensor(list(wanted), device=device)
    if kind == "attention":
        with torch.inference_mode():
            tokens = pipeline.encoder(pixels.to(device))
            output, grid = pipeline.read(tokens), tokens.grid
        if output.attention is None:
            raise UserError("This method has no attention over patches. Use --map gradcam.")
        maps = output.attention[:, pipeline.model.concept_slot.to(device)[columns]]
    else:
        watched = watch(pipeline, pixels.to(device))
        output, grid = watched.output, watched.grid
        maps = watched.maps(columns.expand(len(images), -1))
    shares = concept_probabilities(output.concept_logits.detach().float(), concepts.groups).cpu().numpy()
    said = _asserted(shares, concepts)
    numbers = maps.detach().double().cpu().numpy()
    for row, (index, image) in enumerate(zip(indices.tolist(), images, strict=True)):
        labels = source.examples.concepts[index]
        allowed = [k for k in wanted if said[row, k] and labels[k] != 0]
        allowed = [k for k in allowed if numbers[row, list(wanted).index(k)].max() > 0]  # an empty map shows nothing
        if allowed:
            shown = resize_square(image, min(side, max(image.size)), card.fit).transpose(1, 2, 0)
            present = np.where(labels >= 0, labels == 1, said[row])
            yield index, Image.fromarray(np.ascontiguousarray(shown)), allowed, present, numbers[row].reshape(-1, *grid)


def _asserted(shares: npt.NDArray[np.float32], concepts: ConceptSet) -> npt.NDArray[np.bool_]:
    """What the model says holds, (B, K): the likeliest value of an exclusive group, and others from one half."""
    said = shares >= 0.5
    for group in concepts.groups:
        if group.kind == "exclusive":
            part = shares[:, group.concepts]
            said[:, group.concepts] = part == part.max(1, keepdims=True)
    return said
