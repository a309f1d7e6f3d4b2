"""`stories.json`: a few test images with their concepts. Written once, after training; the page only reads it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_json
from conceptlens.data.dataset import DataSource
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.splits.spread import spread
from conceptlens.explanations.answer import NO_CAUTION, Answerer
from conceptlens.explanations.caution import Caution
from conceptlens.explanations.document import Account, EvidenceMap, LogitDecomposition, Reference
from conceptlens.explanations.image_answer import Answer, Head
from conceptlens.explanations.maps.patch_maps import evidence_map
from conceptlens.explanations.reference import Background
from conceptlens.explanations.subjects import Subject, class_names
from conceptlens.methods.contract import Pipeline
from conceptlens.nn.heads.probabilities import class_probabilities
from conceptlens.reports.choice import Choice, Kind, choose
from conceptlens.runs.predict import Predictions
from conceptlens.runs.saved import Card

FILE = "stories.json"


class ConceptReading(BaseModel):
    """What the model reads of one concept, and what the label says (None: nobody labeled it)."""

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


class StoryMap(BaseModel):
    """Where the weightiest concept that has a place comes from."""

    concept: str
    evidence: EvidenceMap


class Story(BaseModel):
    """One image. `explained` is the class that the contributions speak of, against the second choice if any."""

    model_config = ConfigDict(allow_inf_nan=False)
    image: str
    kind: Kind
    right: bool
    truth: list[str]
    predicted: list[str]
    explained: str
    probabilities: dict[str, float]
    concepts: list[GroupReading]
    sentence: str = ""
    account: Account | None = None  # None in runs of earlier versions, whose contributions are against the mean class
    unlike_training: bool | None = None  # None: not known
    prediction_set: list[str] | None = None  # classes that cannot be excluded; None: not known
    cautions: list[str] = Field(default_factory=list)  # both in words
    map: StoryMap | None = None  # of methods that have evidence


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
    counts: Sequence[int] = (),
    caution: Caution = NO_CAUTION,
) -> Stories:
    """Choose images among the predicted ones of a split and tell what the model says of each.

    Args:
        predictions: Of the split.
        pipeline: Which made them.
        reader: Of the data.
        concepts: The vocabulary.
        split: Its name.
        thresholds: (C,), for a multi-label task.
        counts: (K,) training images that are labeled with each concept (see `Card`), where they are known.
    """
    source = reader.source
    labels = source.examples.labels[predictions.indices]
    chosen = choose(class_probabilities(predictions.logits, source.task), labels, source.task, thresholds)
    if not chosen:
        return Stories(split=split, average_of=0, stories=[])
    scores = predictions.concept_logits if predictions.bottleneck is None else predictions.bottleneck
    bottleneck = scores.astype(np.float64)
    sample = spread(np.arange(len(scores)))  # the same images as those of `explain` and the page
    average = Reference(what="average image", images=len(sample), split=split)
    card = Card(
        list(source.classes), source.task, reader.size, reader.fit, {}, list(thresholds), concept_counts=list(counts)
    )
    answerer = Answerer(pipeline, card, concepts, Background(average, bottleneck[sample].mean(0), None), caution)
    rows = [choice.row for choice in chosen]
    answers = answerer.from_scores(
        [_subject(source, int(predictions.indices[row]), split) for row in rows],
        logits=predictions.logits[rows],
        concept_logits=predictions.concept_logits[rows],
        bottleneck=bottleneck[rows],
        head=Head(pipeline, torch.as_tensor(scores), None),
        vectors=None if predictions.vectors is None else predictions.vectors[rows],
    )
    stories = [_story(answer, choice) for answer, choice in zip(answers, chosen, strict=True)]
    if pipeline.model.has_evidence:
        pipeline.eval()
        pixels = reader.batch(predictions.indices[rows]).numpy()
        seen = [Subject(story.image, each) for story, each in zip(stories, pixels, strict=True)]
        for story, answer in zip(stories, answerer.stream(seen, maps=("evidence",)), strict=True):
            story.map = _map(answer, card.classes.index(story.explained))
    weighed = answers[0].decomposition(chosen[0].about, None) is not None
    return Stories(split=split, average_of=len(sample) if weighed else 0, stories=stories)


def _subject(source: DataSource, index: int, split: str) -> Subject:
    examples = source.examples
    truth = class_names(examples.labels[index], source.classes)
    return Subject(examples.ids[index], split=split, truth=truth, labels=examples.concepts[index].tolist())


def _story(answer: Answer, choice: Choice) -> Story:
    """The part of an answer that the page tells."""
    classes = answer.answerer.card.classes
    argument = answer.argue(choice.about, answer.rival)
    decomposition = argument.decompositions[-1] if argument.decompositions else None
    return Story(
        image=answer.image,
        kind=choice.kind,
        right=choice.right,
        truth=answer.truth or [],
        predicted=answer.predicted,
        explained=classes[choice.about],
        probabilities=dict(zip(classes, answer.probabilities.round(6).tolist(), strict=True)),
        concepts=_readings(answer, decomposition),
        # The class that a story of several labels is about need not be one that is said.
        sentence=argument.sentence if choice.about == answer.about and answer.answerer.concepts.concepts else "",
        account=argument.account,
        unlike_training=answer.unlike_training,
        prediction_set=answer.prediction_set,
        cautions=answer.cautions,
    )


def _map(answer: Answer, about: int) -> StoryMap | None:
    """The evidence of the weightiest concept that has a place; None where there is no such concept."""
    concepts, maps = answer.answerer.concepts, answer.maps
    assert maps is not None
    placed = [k for k in answer.argue(about, answer.rival).deciding if not concepts.placeless[k]]
    if not placed or maps.evidence is None or maps.unplaced is None:
        return None
    k = placed[0]
    unplaced, logit = float(maps.unplaced[k]), float(answer.concept_logits[k])
    return StoryMap(concept=concepts.names[k], evidence=evidence_map(maps.evidence[k], maps.grid, unplaced, logit))


def _readings(answer: Answer, decomposition: LogitDecomposition | None) -> list[GroupReading]:
    """One image's concepts by group."""
    readings = [
        ConceptReading(
            value=reading.value,
            probability=round(reading.probability, 6),
            label=reading.label,
            contribution=None if decomposition is None else round(decomposition.values[k], 6),
        )
        for k, reading in enumerate(answer.concepts)
    ]
    return [
        GroupReading(group=group.name, exclusive=group.kind == "exclusive", values=readings[group.concepts])
        for group in answer.answerer.concepts.groups
    ]
