"""`stories.json`: a few test images, told in concepts. Written once, after training; the page only reads it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_json
from conceptlens.data.loading.loader import PixelReader
from conceptlens.explanations.contributions import contributions
from conceptlens.explanations.predict import read_concepts
from conceptlens.methods.contract import Pipeline
from conceptlens.nn.heads.probabilities import class_probabilities, concept_probabilities_of
from conceptlens.reports.choice import Kind, choose
from conceptlens.runs.predict import Predictions

FILE = "stories.json"


class ConceptReading(BaseModel):
    """What the model reads of one concept, and what the label says (None: nobody labelled it)."""

    model_config = ConfigDict(allow_inf_nan=False)
    value: str
    probability: float
    label: bool | None
    contribution: float | None


class GroupReading(BaseModel):
    """The concepts of one group."""

    group: str
    exclusive: bool
    values: list[ConceptReading]


class Story(BaseModel):
    """One image. `explained` is the class that the contributions speak of."""

    model_config = ConfigDict(allow_inf_nan=False)
    image: str
    kind: Kind
    right: bool
    truth: list[str]
    predicted: list[str]
    explained: str
    probabilities: dict[str, float]
    concepts: list[GroupReading]


class Stories(BaseModel):
    """The file."""

    split: str
    average_of: int  # images whose average the contributions are compared with; 0: there are no contributions
    stories: list[Story]

    @classmethod
    def read(cls, run: Path) -> "Stories":
        try:
            return cls.model_validate(read_json(run / FILE))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise UserError(
                f"{run / FILE}: {place}: {first['msg']}. Without this file the page is drawn without examples."
            ) from None

    def write(self, run: Path) -> None:
        write_json(run / FILE, self.model_dump())


def tell(
    predictions: Predictions,
    pipeline: Pipeline,
    reader: PixelReader,
    concepts: ConceptSet,
    *,
    split: str,
    thresholds: Sequence[float],
) -> Stories:
    """Choose images among the predicted ones of a split and gather what each story needs."""
    source = reader.source
    labels = source.examples.labels[predictions.indices]
    shares = class_probabilities(predictions.logits, source.task)
    chosen = choose(shares, labels, source.task, thresholds)
    if not chosen:
        return Stories(split=split, average_of=0, stories=[])
    rows = np.array([each.row for each in chosen], dtype=np.int64)
    about = [each.about for each in chosen]
    scores = predictions.concept_logits if predictions.bottleneck is None else predictions.bottleneck
    added = contributions(pipeline.model, scores, rows, about, softmax=source.task != "multilabel")
    concepts = read_concepts(pipeline.model, concepts)
    read = concept_probabilities_of(predictions.concept_logits[rows], concepts)
    told: list[Story] = []
    for place, each in enumerate(chosen):
        row, index = each.row, int(predictions.indices[each.row])
        if source.task == "multilabel":
            truth = [name for name, mark in zip(source.classes, labels[row], strict=True) if mark == 1]
            said = [name for c, name in enumerate(source.classes) if shares[row, c] >= thresholds[c]]
        else:
            truth, said = [source.classes[labels[row]]], [source.classes[each.about]]
        marks = source.examples.concepts[index].tolist()
        values = None if added is None else added.values[place].tolist()
        told.append(
            Story(
                image=source.examples.ids[index],
                kind=each.kind,
                right=each.right,
                truth=truth,
                predicted=said,
                explained=source.classes[each.about],
                probabilities=dict(zip(source.classes, shares[row].round(6).tolist(), strict=True)),
                concepts=_readings(concepts, read[place].tolist(), marks, values),
            )
        )
    return Stories(split=split, average_of=0 if added is None else added.average_of, stories=told)


def _readings(
    concepts: ConceptSet, read: list[float], marks: list[int], values: list[float] | None
) -> list[GroupReading]:
    """One image's concepts by group, from K numbers each."""
    return [
        GroupReading(
            group=group.name,
            exclusive=group.kind == "exclusive",
            values=[
                ConceptReading(
                    value=concepts.concepts[k].value,
                    probability=round(read[k], 6),
                    label=None if marks[k] < 0 else marks[k] == 1,
                    contribution=None if values is None else round(values[k], 6),
                )
                for k in range(group.concepts.start, group.concepts.stop)
            ],
        )
        for group in concepts.groups
    ]
