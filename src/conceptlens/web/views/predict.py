"""Class, concepts, contributions and maps of one image: one pass through the model, one backward pass for each map."""

import base64
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.images.read import resize_square
from conceptlens.evaluation.interventions.units import questions
from conceptlens.explanations.answer import Answerer, MapName
from conceptlens.explanations.image_answer import Answer, AnswerMaps
from conceptlens.explanations.maps.patch_maps import index_map
from conceptlens.explanations.reference import Background
from conceptlens.explanations.subjects import Subject, class_names
from conceptlens.runs.verdicts import failed_maps, map_captions, unmoving_maps
from conceptlens.web.schemas.image import ByteMaps, ConceptPart, IndexPart, Maps, Prediction, SeenImage, State
from conceptlens.web.schemas.runs import Split
from conceptlens.web.server.loaded import LoadedRun
from conceptlens.web.server.problems import bad
from conceptlens.web.views.codebook import given_names
from conceptlens.web.views.gallery import PICTURE, picture_address, read_image, square_jpeg

ALL_UP_TO = 64  # concepts whose Grad-CAM is made without being asked for
UPLOAD = "upload"
MAPS: tuple[MapName, ...] = ("attention", "gradcam", "index", "assignment")  # and evidence, of methods that have it


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
    """The part of an answer that the page tells."""
    own: tuple[MapName, ...] = ("evidence",) if loaded.pipeline.model.has_evidence else ()
    captions = map_captions(loaded.entry.path, evidence=bool(own))
    answerer = Answerer(loaded.pipeline, loaded.card, loaded.vocabulary, loaded.background, loaded.caution, captions)
    columns = wanted_columns(gradcam, len(loaded.concepts))
    # A method without concepts is asked all the same: the answer says why there is no Grad-CAM.
    kinds = MAPS if columns != [] or not loaded.concepts.concepts else tuple(k for k in MAPS if k != "gradcam")
    with loaded.passing:
        [answer] = answerer.batch([subject], maps=(*own, *kinds), concepts=columns, strict=False)
    assert answer.maps is not None
    return Prediction(
        run=loaded.entry.key,
        weights=loaded.card.weights_hash,
        image=seen,
        picture=picture,
        truth=answer.truth,
        predicted=answer.predicted,
        about=answer.about_class,
        rival=answer.rival_class,
        sentence=answer.sentence,
        classes=answer.classes,
        concepts=[
            ConceptPart(**reading.model_dump(), index=k, bottleneck=float(answer.bottleneck[k]), slot=answer.slot(k))
            for k, reading in enumerate(answer.concepts)
        ],
        account=answer.account,
        decompositions=answer.decompositions,
        reference=answerer.background.reference,
        deciding=answer.deciding,
        bypass=answer.bypass,
        state=_state(loaded, answer),
        truth_edits=truth_edits(loaded.concepts, subject.labels or []),
        unlike_training=answer.unlike_training,
        prediction_set=answer.prediction_set,
        cautions=answer.cautions,
        maps=_maps(answer.maps, answerer.concepts, loaded.entry.path),
        index=_index(answer.maps, answerer.background, loaded),
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


def _context(loaded: LoadedRun, answer: Answer) -> npt.NDArray[np.float16] | None:
    """What the head reads of the image besides (E,); a run of an older version keeps none, and none is then used."""
    if answer.context is None:
        return None
    try:
        kept = loaded.readout.context
    except UserError:
        return None
    return None if kept is None else answer.context


@torch.inference_mode()
def _state(loaded: LoadedRun, answer: Answer) -> State:
    """What a what-if starts from; a method without concepts has none to set."""
    model = loaded.pipeline.model
    if not loaded.concepts.concepts:
        return State(bottleneck=[], concept_logits=[], rest=[])
    rest = np.zeros(len(loaded.card.classes))
    context = _context(loaded, answer)
    if model.bypass is not None:
        read = torch.from_numpy(answer.bottleneck[None]).to(loaded.device, torch.float32)
        if context is None:
            decided = model.decide(read)
        else:
            decided = model.decide_within(read, torch.from_numpy(context[None]).to(loaded.device, torch.float32))
        rest = answer.logits.astype(np.float64) - decided[0].double().cpu().numpy()
    return State(
        bottleneck=answer.bottleneck.tolist(),
        concept_logits=answer.concept_logits.tolist(),
        rest=rest.tolist(),
        context=[] if context is None else context.tolist(),
    )


def truth_edits(concepts: ConceptSet, labels: Sequence[int]) -> list[str]:
    """Edits in words that set every labeled concept as labeled."""
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
    quantized = np.round(numbers / np.where(largest > 0, largest, 1)[:, None] * 255).astype(np.uint8)
    return ByteMaps(
        of=list(of),
        scale=[float(f"{value:.6g}") for value in largest],
        data=base64.b64encode(quantized.tobytes()).decode("ascii"),
    )


def signed_byte_maps(of: Sequence[int], maps: npt.NDArray[Any]) -> ByteMaps:
    """Maps (n, L) of numbers of both signs as bytes, 128 for 0, each as far as its largest amount."""
    numbers = np.nan_to_num(np.asarray(maps, dtype=np.float64), posinf=0, neginf=0)
    largest = np.abs(numbers).max(1, initial=0)
    quantized = (np.round(numbers / np.where(largest > 0, largest, 1)[:, None] * 127) + 128).astype(np.uint8)
    return ByteMaps(
        of=list(of),
        scale=[float(f"{value:.6g}") for value in largest],
        data=base64.b64encode(quantized.tobytes()).decode("ascii"),
    )


def _maps(maps: AnswerMaps, concepts: ConceptSet, run: Path) -> Maps:
    evidence, attention, assignment, gradcam = maps.evidence, maps.attention, maps.assignment, maps.gradcam
    placed = np.flatnonzero(~concepts.placeless)
    return Maps(
        grid=maps.grid,
        evidence=None if evidence is None else signed_byte_maps(placed.tolist(), evidence[placed]),
        unplaced=None if maps.unplaced is None else maps.unplaced.tolist(),
        attention=None if attention is None else byte_maps(range(len(attention)), attention),
        assignment=None if assignment is None else byte_maps(range(assignment.shape[1]), assignment.T),
        gradcam=byte_maps(list(gradcam), np.stack(list(gradcam.values()))) if gradcam else None,
        gradcam_at=maps.gradcam_at if gradcam else None,
        without={str(kind): why for kind, why in maps.without.items()},
        captions=map_captions(run, evidence=evidence is not None),
        failed=failed_maps(run, evidence=evidence is not None),
        unmoving=unmoving_maps(run),
    )


def _index(maps: AnswerMaps, background: Background, loaded: LoadedRun) -> IndexPart | None:
    if maps.codes is None:
        return None
    given = given_names(loaded)
    index = index_map(torch.from_numpy(maps.codes), maps.grid, background)
    close = maps.code_similarity
    return IndexPart(
        grid=index.grid,
        codes=[code for row in index.codes for code in row],
        similarity=None if close is None else [round(value, 4) for value in close.tolist()],
        legend=[
            entry.model_copy(update={"name": given[str(entry.code)]}) if str(entry.code) in given else entry
            for entry in index.legend
        ],
        sample=index.sample,
    )
