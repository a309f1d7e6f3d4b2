"""What if: one image with some concepts set by hand, before and after, and what to ask next.

`group=value` gives a group that value, as a label would. `group: value=yes`, `=no` or `=0.3` sets one concept by label
or by probability, `=score 2.5` by what the class head reads, and `=mean of CLASS` by that class's mean score, which a
whole group may take too.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from conceptlens.concepts import UNKNOWN
from conceptlens.core.documents import Document, Part, TableRow
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.evaluation.interventions.ask_next import NextQuestion, ask_next, spoken
from conceptlens.evaluation.interventions.edits import class_mean, set_probability, set_value
from conceptlens.evaluation.interventions.units import left_to_ask
from conceptlens.evaluation.interventions.value_map import ValueMap, fit_map
from conceptlens.explanations.answer import Answerer
from conceptlens.explanations.subjects import OneImage, subjects
from conceptlens.runs.predictions import StoredPredictions
from conceptlens.runs.readout import Floats, Readout, read_out

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun


class Side(Part):
    """What the model says."""

    said: str
    probabilities: dict[str, float]


class WhatIf(Document):
    """One image, edited."""

    remedy = "Ask again with `conceptlens what-if RUN IMAGE --set …`."

    image: str
    edits: list[str]
    before: Side
    after: Side
    ask: NextQuestion  # of what the edits leave open
    bypass: str | None

    def text(self) -> str:
        def line(side: Side) -> str:
            best = sorted(side.probabilities.items(), key=lambda pair: -pair[1])[:3]
            return f"{side.said} (" + ", ".join(f"{name} {share:.1%}" for name, share in best) + ")"

        lines = [f"{self.image}: {line(self.before)}"]
        if self.edits:
            lines.append(f"  with {'; '.join(self.edits)}: {line(self.after)}")
        for first in self.ask.ask[:1]:
            lines.append(f"  most would be learned from: {first.unit} ({first.expected_gain:.3f} nats expected)")
        if self.bypass:
            lines.append(f"  the class is also reached by {self.bypass}, which no edit touches")
        return "\n".join(lines)

    def table(self) -> list[TableRow]:
        """The probability of each class before and after."""
        return [
            {"class": name, "before": before, "after": self.after.probabilities[name]}
            for name, before in self.before.probabilities.items()
        ]


def what_if(readout: Readout, image: Readout, edits: Sequence[str]) -> WhatIf:
    """Edit one image.

    Args:
        readout: The run's images: they teach what a label is worth, and the classes' mean scores.
        image: A readout of one image.
        edits: As `granule colour=pink`.
    """
    maps = fit_map(readout, np.arange(len(readout)))
    bottleneck = apply(readout, maps, image, edits)
    units = left_to_ask(readout.concepts, image.concept_logits[0], edits)
    return WhatIf(
        image=image.ids[0],
        edits=list(edits),
        before=_side(image, image.bottleneck),
        after=_side(image, bottleneck),
        ask=ask_next(replace(image, bottleneck=bottleneck), maps, units, [0], most=len(units))[0],
        bypass=image.bypass,
    )


def _side(image: Readout, bottleneck: Floats) -> Side:
    logits = image.logits(bottleneck)
    shares = image.probabilities(logits)[0]
    return Side(said=spoken(image, logits[0]), probabilities=dict(zip(image.classes, map(float, shares), strict=True)))


def apply(readout: Readout, maps: ValueMap, image: Readout, edits: Sequence[str]) -> Floats:
    """What the head reads of an image (n, K) after some edits in words, one after the other."""
    bottleneck = image.bottleneck
    for edit in edits:
        bottleneck = _apply(readout, maps, image, bottleneck, edit)
    return bottleneck


def _apply(readout: Readout, maps: ValueMap, image: Readout, bottleneck: Floats, edit: str) -> Floats:
    concepts = readout.concepts
    name, equals, word = (part.strip() for part in edit.partition("="))
    if not equals or not word:
        raise UserError(f"--set {edit!r}: expected `group=value`, `group: value=yes` or `group: value=0.8`.")
    groups = {group.name: group for group in concepts.groups}
    known = [*groups, *concepts.names]
    if name not in known:
        raise unknown_name("concept or group", name, known)
    columns = [concepts.names.index(name)] if name in concepts.names else _span(groups[name].concepts)
    if word.startswith("mean of "):
        label = word.removeprefix("mean of ").strip()
        if label not in readout.classes:
            raise unknown_name("class", label, readout.classes)
        return set_value(bottleneck, columns, class_mean(readout, [readout.classes.index(label)])[columns])
    if name in groups and word not in groups[name].values:
        raise unknown_name(f"value of {name!r}", word, groups[name].values)
    if name in groups or word in ("yes", "no"):
        chosen = columns[groups[name].values.index(word)] if name in groups else columns[0]
        return _tell(maps, image, bottleneck, chosen, yes=word != "no" or name in groups)
    raw = word.startswith("score ")
    try:
        number = float(word.removeprefix("score "))
    except ValueError:
        raise UserError(
            f"--set {edit!r}: expected yes, no, a probability such as 0.8, `score 2.5` or `mean of CLASS` after the =."
        ) from None
    if raw:
        return set_value(bottleneck, columns, number)
    return set_probability(readout, maps, bottleneck, columns[0], number)


def _tell(maps: ValueMap, image: Readout, bottleneck: Floats, column: int, *, yes: bool) -> Floats:
    """A label of one concept: yes to a value of an exclusive group is no to the others."""
    group = image.concepts.groups[image.concepts.group_of[column]]
    columns = _span(group.concepts) if yes and group.kind == "exclusive" else [column]
    held = (np.array(columns) == column) & yes
    own, read = image.bottleneck[:, columns], image.read_labels[:, columns]
    return set_value(bottleneck, columns, maps.answer(columns, held, own, read))


def _span(columns: slice) -> list[int]:
    return list(range(columns.start, columns.stop))


def one_of(readout: Readout, name: str) -> Readout | None:
    """The image of that name, or whose name ends in it; None if there is none, or more than one."""
    places = [place for place, each in enumerate(readout.ids) if each == name] or [
        place for place, each in enumerate(readout.ids) if Path(each).name == Path(name).name
    ]
    if len(places) != 1:
        return None
    rows = np.array(places)
    return replace(
        readout,
        ids=(readout.ids[places[0]],),
        units=(readout.units[places[0]],),
        **{part: getattr(readout, part)[rows] for part in ("bottleneck", "concept_logits", "truth", "labels", "rest")},
        context=None if readout.context is None else readout.context[rows],
    )


def read_image(run: "OpenedRun", image: OneImage) -> Readout:
    """Any image (a file, a PIL image, an array, a tensor), through the run's encoder."""
    card, concepts = run.card, run.concepts
    answer = Answerer.of(run).batch(list(subjects(image, card, pictures=False)))[0]
    if answer.error:
        raise UserError(answer.error)
    unknown = -1 if card.task != "multilabel" else [-1] * len(card.classes)
    stored = StoredPredictions(
        ids=(answer.image,),
        units=(answer.image,),
        classes=tuple(card.classes),
        task=card.task,
        logits=answer.logits[None],
        concept_logits=answer.concept_logits[None],
        labels=np.array([unknown], dtype=np.int64),
        concepts=np.full((1, len(concepts)), UNKNOWN, dtype=np.int8),
        thresholds=tuple(card.thresholds),
        bottleneck=answer.bottleneck.astype(np.float32)[None],
        context=None if answer.context is None else answer.context[None],
    )
    return read_out(run.pipeline.model, stored, concepts)
