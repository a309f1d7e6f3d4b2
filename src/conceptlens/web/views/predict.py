"""Class, concepts, contributions and maps of one image: one pass through the model, one backward pass for each map."""

import base64
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.images.read import resize_square
from conceptlens.evaluation.interventions.units import questions
from conceptlens.explanations.maps.gradcam import Watched, watch
from conceptlens.explanations.maps.patch_maps import index_map
from conceptlens.explanations.reference import Background
from conceptlens.explanations.subjects import Subject, class_names
from conceptlens.explanations.verdict import Judge, Verdict, class_readings
from conceptlens.methods.contract import ConceptOutput
from conceptlens.web.schemas.image import ByteMaps, ConceptPart, IndexPart, Maps, Prediction, SeenImage, State
from conceptlens.web.schemas.runs import Split
from conceptlens.web.server.loaded import LoadedRun
from conceptlens.web.server.problems import bad
from conceptlens.web.views.gallery import PICTURE, picture_address, read_image, square_jpeg

ALL_UP_TO = 64  # concepts whose Grad-CAM is made without being asked for
UPLOAD = "upload"


@dataclass(frozen=True)
class Passed:
    """One image, seen by the model: everything already on the CPU but the graph of Grad-CAM."""

    output: ConceptOutput
    grid: tuple[int, int]
    verdict: Verdict
    gradcam: tuple[list[int], npt.NDArray[np.float32]] | None  # columns, and maps (n, L)
    place: str | None
    why: str | None  # there is no Grad-CAM


def predict_own(loaded: LoadedRun, split: Split, row: int, gradcam: str) -> Prediction:
    """An image of the run's own data."""
    began = time.perf_counter()
    index = loaded.index(split, row)
    examples, size = loaded.source.examples, loaded.card.image_size
    image = read_image(loaded, split, row, size)
    subject = Subject(
        examples.ids[index],
        resize_square(image, size, loaded.card.fit),
        split=split,
        truth=class_names(examples.labels[index], loaded.card.classes),
        labels=examples.concepts[index].tolist() if loaded.concepts.concepts else [],
    )
    seen = SeenImage(split=split, row=row, id=subject.image)
    return _predict(loaded, subject, seen, picture_address(loaded.entry.key, split, row, "picture"), gradcam, began)


def predict_upload(loaded: LoadedRun, image: Image.Image, gradcam: str) -> Prediction:
    """An image that came with the request."""
    began = time.perf_counter()
    subject = Subject(UPLOAD, resize_square(image, loaded.card.image_size, loaded.card.fit))
    address = f"data:image/jpeg;base64,{base64.b64encode(square_jpeg(loaded, image, PICTURE)).decode('ascii')}"
    return _predict(loaded, subject, SeenImage(split=None, row=None, id=UPLOAD), address, gradcam, began)


def _predict(
    loaded: LoadedRun, subject: Subject, seen: SeenImage, picture: str, gradcam: str, began: float
) -> Prediction:
    background = loaded.background
    columns = wanted_columns(gradcam, len(loaded.concepts))
    with loaded.passing:
        passed = _pass(loaded, subject, background, columns)
    output, verdict, card = passed.output, passed.verdict, loaded.card
    bottleneck = output.bottleneck[0].detach().double().cpu().numpy()
    return Prediction(
        run=loaded.entry.key,
        weights=card.weights_hash,
        image=seen,
        picture=picture,
        truth=subject.truth,
        predicted=verdict.predicted,
        about=card.classes[verdict.about],
        rival=None if verdict.rival is None else card.classes[verdict.rival],
        sentence=verdict.sentence,
        classes=class_readings(card.task, card.classes, card.thresholds, verdict.shares, verdict.logits),
        concepts=_concepts(loaded, verdict, bottleneck),
        accounts=verdict.accounts,
        reference=background.reference,
        deciding=verdict.concepts,
        bypass=loaded.pipeline.model.bypass,
        state=_state(loaded, output, verdict),
        truth_edits=truth_edits(loaded.concepts, subject.labels or []),
        maps=_maps(passed),
        index=_index(loaded, passed, background),
        took_ms=round(1000 * (time.perf_counter() - began), 2),
    )


def wanted_columns(word: str, count: int) -> list[int] | None:
    """The concepts whose Grad-CAM is wanted; None for those that decided.

    Args:
        word: `auto`, `all`, `deciding`, `none`, or numbers by commas.
        count: K.
    """
    if word == "deciding" or (word == "auto" and count > ALL_UP_TO):
        return None
    if word in ("auto", "all"):
        return list(range(count))
    if word == "none":
        return []
    try:
        columns = list(dict.fromkeys(int(part) for part in word.split(",")))
    except ValueError:
        raise bad(f"gradcam: expected auto, all, deciding, none or columns such as 3,17; found {word!r}.") from None
    for column in columns:
        if not 0 <= column < count:
            raise bad(f"gradcam: concepts are counted from 0 to {count - 1}; {column} is not one of them.")
    return columns


def _pass(loaded: LoadedRun, subject: Subject, background: Background, columns: list[int] | None) -> Passed:
    """One image through the model."""
    assert subject.pixels is not None
    pipeline, concepts = loaded.pipeline, loaded.concepts
    pixels = torch.from_numpy(subject.pixels[None]).to(loaded.device)
    watched: Watched | None = None
    why: str | None = "this method reads no concepts" if not concepts.concepts else None
    if why is None and columns != []:
        try:
            watched = watch(pipeline, pixels)
        except UserError as error:
            why = str(error)
    if watched:
        output, grid = watched.output, watched.grid
    else:
        with torch.inference_mode():
            tokens = pipeline.encoder(pixels)
            output, grid = pipeline.read(tokens), tokens.grid
    verdict = Judge(pipeline.model, loaded.card, concepts, background, None).of([subject], output)[0]
    if watched is None:
        return Passed(output, grid, verdict, None, None, why)
    columns = verdict.concepts if columns is None else columns
    if not columns:
        return Passed(output, grid, verdict, None, watched.place, "no concept decided this image")
    found = watched.maps(torch.tensor([columns], device=loaded.device))[0].float().cpu().numpy()
    return Passed(output, grid, verdict, (columns, found), watched.place, None)


def _concepts(loaded: LoadedRun, verdict: Verdict, bottleneck: npt.NDArray[np.float64]) -> list[ConceptPart]:
    labels = verdict.subject.labels or [-1] * len(loaded.concepts)
    rows = zip(loaded.concepts.concepts, verdict.scores.tolist(), verdict.read.tolist(), labels, strict=True)
    return [
        ConceptPart(
            index=k,
            name=concept.name,
            group=concept.group,
            value=concept.value,
            text=concept.text,
            part=concept.part,
            score=score,
            probability=share,
            label=None if label < 0 else label == 1,
            bottleneck=float(bottleneck[k]),
            slot=loaded.slot(k),
        )
        for k, (concept, score, share, label) in enumerate(rows)
    ]


def _context(loaded: LoadedRun, output: ConceptOutput) -> Tensor | None:
    """What the head reads of the image besides (1, E); a run of an older version keeps none, and none is then used."""
    if output.context is None:
        return None
    try:
        kept = loaded.readout.context
    except UserError:
        return None
    return None if kept is None else output.context[:1].detach().half()


def _state(loaded: LoadedRun, output: ConceptOutput, verdict: Verdict) -> State:
    """What a what-if starts from; a method without concepts has none to set."""
    model = loaded.pipeline.model
    if not loaded.concepts.concepts:
        return State(bottleneck=[], concept_logits=[], rest=[])
    rest = np.zeros(len(loaded.card.classes))
    context = _context(loaded, output)
    if model.bypass is not None:
        with torch.inference_mode():
            read = output.bottleneck.detach()
            decided = model.decide(read) if context is None else model.decide_within(read, context.to(read.dtype))
            rest = verdict.logits - decided[0].double().cpu().numpy()
    return State(
        bottleneck=output.bottleneck[0].detach().double().cpu().tolist(),
        concept_logits=output.concept_logits[0].detach().double().cpu().tolist(),
        rest=rest.tolist(),
        context=[] if context is None else context[0].tolist(),
    )


def truth_edits(concepts: ConceptSet, labels: Sequence[int]) -> list[str]:
    """Edits in words that set every labelled concept as labelled."""
    edits: list[str] = []
    for group, asked in zip(concepts.groups, questions(concepts), strict=True):
        for question in asked:
            known = [labels[column] for column in question.columns] if labels else []
            if len(known) > 1 and sum(label == 1 for label in known) == 1 and min(known) >= 0:
                edits.append(f"{group.name}={group.values[known.index(1)]}")
                continue
            for column, label in zip(question.columns, known, strict=False):
                if label >= 0:
                    edits.append(f"{concepts.names[column]}={'yes' if label else 'no'}")
    return edits


def byte_maps(of: Sequence[int], maps: npt.NDArray[Any]) -> ByteMaps:
    """Maps (n, L) of numbers ≥ 0 as bytes, each of them from 0 to its largest value."""
    numbers = np.nan_to_num(np.asarray(maps, dtype=np.float64), posinf=0, neginf=0).clip(0)
    largest = numbers.max(1, initial=0)
    quantised = np.round(numbers / np.where(largest > 0, largest, 1)[:, None] * 255).astype(np.uint8)
    return ByteMaps(
        of=list(of),
        scale=[float(f"{value:.6g}") for value in largest],
        data=base64.b64encode(quantised.tobytes()).decode("ascii"),
    )


def _maps(passed: Passed) -> Maps:
    output, without = passed.output, {}
    attention, assignment = _rows(output.attention), _rows(output.assignment)
    if attention is None:
        without["attention"] = "this method reads the image as a whole and has no attention over patches"
    if output.codes is None:
        without["index"] = "this run has no codebook"
    if passed.why:
        without["gradcam"] = passed.why
    return Maps(
        grid=passed.grid,
        attention=None if attention is None else byte_maps(range(len(attention)), attention),
        assignment=None if assignment is None else byte_maps(range(assignment.shape[1]), assignment.T),
        gradcam=byte_maps(*passed.gradcam) if passed.gradcam else None,
        gradcam_at=passed.place if passed.gradcam else None,
        without=without,
    )


def _rows(tensor: Tensor | None) -> npt.NDArray[np.float32] | None:
    return None if tensor is None else tensor[0].detach().float().cpu().numpy()


def _index(loaded: LoadedRun, passed: Passed, background: Background) -> IndexPart | None:
    output = passed.output
    if output.codes is None:
        return None
    found = index_map(output.codes[0].detach(), passed.grid, background)
    close = similarities(output, getattr(loaded.pipeline.regulariser, "codebook", None))
    return IndexPart(
        grid=found.grid,
        codes=[code for row in found.codes for code in row],
        similarity=None if close is None else [round(value, 4) for value in close[0].tolist()],
        legend=found.legend,
        sample=found.sample,
    )


def similarities(output: ConceptOutput, codebook: Tensor | None) -> Tensor | None:
    """The cosine of each patch with its nearest prototype, (B, L); None where both are not in one space."""
    patches, codes = output.patches, output.codes
    if codes is None or patches is None or codebook is None or codebook.shape[-1] != patches.shape[-1]:
        return None
    nearest = codebook.detach()[codes].to(patches.dtype)
    return torch.nn.functional.cosine_similarity(patches.detach(), nearest, dim=-1).float().cpu()
