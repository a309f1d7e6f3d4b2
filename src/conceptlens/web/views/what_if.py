"""What if: the class of one image with some concepts set, what to ask next, what would flip it. Nothing is remembered.

A request brings the state of its image; edits are the words of `conceptlens what-if --set`, applied by the same
functions, so that page and command line agree to the last digit.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from conceptlens.concepts import UNKNOWN, Group
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.evaluation.interventions.ask_next import ask_next
from conceptlens.evaluation.interventions.edits import class_mean
from conceptlens.evaluation.interventions.flip import Edit, flips
from conceptlens.evaluation.interventions.units import left_to_ask
from conceptlens.evaluation.interventions.what_if import apply
from conceptlens.explanations.document import LogitDecomposition
from conceptlens.explanations.image_answer import class_readings
from conceptlens.explanations.logit_decomposition import decompose_logit
from conceptlens.nn.heads.bottleneck import EPSILON
from conceptlens.runs.readout import Floats, Readout
from conceptlens.web.schemas.image import State
from conceptlens.web.schemas.what_if import (
    AnswerPart,
    Asked,
    AskRequest,
    Change,
    Flipped,
    FlipRequest,
    Head,
    InterveneRequest,
    Intervention,
    Question,
    Side,
)
from conceptlens.web.server.loaded import LoadedRun
from conceptlens.web.server.problems import bad, missing

FAR = 1e6  # scores beyond this mean nothing, and would overflow


def read_state(readout: Readout, state: State) -> Readout:
    """A readout of the one image of a request."""
    k, c = len(readout.concepts), len(readout.classes)
    for name, numbers, count in (
        ("bottleneck", state.bottleneck, k),
        ("concept_logits", state.concept_logits, k),
        ("rest", state.rest, c),
        ("context", state.context, 0 if readout.context is None else readout.context.shape[1]),
    ):
        if len(numbers) != count:
            raise bad(
                f"state.{name}: expected {count} numbers, found {len(numbers)}. Send a prediction's `state` back."
            )
        if any(abs(number) > FAR for number in numbers):
            raise bad(f"state.{name}: expected numbers between −{FAR:g} and {FAR:g}.")
    labels = np.full((1, c), -1) if readout.task == "multilabel" else np.array([-1])
    return replace(
        readout,
        ids=("image",),
        units=("image",),
        bottleneck=np.array([state.bottleneck]),
        concept_logits=np.array([state.concept_logits]),
        rest=np.array([state.rest]),
        context=np.array([state.context], dtype=np.float16) if state.context else None,
        truth=np.full((1, k), UNKNOWN, dtype=np.int8),
        labels=labels.astype(np.int64),
    )


def edited(loaded: LoadedRun, image: Readout, edits: Sequence[str]) -> Floats:
    """What the head reads of an image (1, K) after some edits in words."""
    try:
        bottleneck = apply(loaded.readout, loaded.values, image, edits)
    except UserError as error:
        raise bad(str(error).removeprefix("--set ")) from None
    if not np.isfinite(bottleneck).all() or np.abs(bottleneck).max(initial=0) > FAR:
        raise bad(f"edits: a score must lie between −{FAR:g} and {FAR:g}.")
    return bottleneck


def intervene(loaded: LoadedRun, request: InterveneRequest) -> Intervention:
    """The class before and after some edits."""
    began = time.perf_counter()
    image = read_state(loaded.readout, request.state)
    if request.about is not None and request.about not in image.classes:
        raise bad(str(unknown_name("class", request.about, image.classes)))
    after = edited(loaded, image, request.edits)
    sides = [_side(image, rows) for rows in (image.bottleneck, after)]
    moved = np.flatnonzero(after[0] != image.bottleneck[0]).tolist()
    about = request.about or (sides[1].said or [_first(sides[1])])[0]
    return Intervention(
        edits=request.edits,
        before=sides[0],
        after=sides[1],
        bottleneck=after[0].tolist(),
        changed=[Change(concept=k, before=float(image.bottleneck[0, k]), after=float(after[0, k])) for k in moved],
        decompositions=_decompositions(loaded, image, after, about),
        took_ms=round(1000 * (time.perf_counter() - began), 2),
    )


def _first(side: Side) -> str:
    return max(side.classes, key=lambda each: each.probability - (each.threshold or 0)).name


def _side(image: Readout, bottleneck: Floats) -> Side:
    logits = image.logits(bottleneck)
    said, shares = image.said(logits)[0], image.probabilities(logits)[0]
    several = image.task == "multilabel"
    return Side(
        said=[name for name, held in zip(image.classes, said, strict=True) if held]
        if several
        else [image.classes[int(said)]],
        classes=class_readings(image.task, image.classes, image.thresholds, shares, logits[0]),
    )


def _decompositions(loaded: LoadedRun, image: Readout, bottleneck: Floats, about: str) -> list[LogitDecomposition]:
    head = image.head
    if head is None:
        return []
    reference, logits = loaded.background.bottleneck, image.logits(bottleneck)[0]
    return [decompose_logit(head, image.classes, image.classes.index(about), None, bottleneck[0], reference, logits)]


def ask(loaded: LoadedRun, request: AskRequest) -> Asked:
    """The questions whose answers would tell most about the class, given the answers so far."""
    image = read_state(loaded.readout, request.state)
    image = replace(image, bottleneck=edited(loaded, image, request.edits))
    units = left_to_ask(image.concepts, image.concept_logits[0], request.edits)
    found = ask_next(image, loaded.values, units, [0], most=request.most)[0]
    groups = {group.name: group for group in image.concepts.groups}
    return Asked(
        said=found.said,
        entropy=found.entropy,
        ask=[
            Question(
                unit=each.unit,
                kind=groups[each.unit].kind,
                expected_gain=each.expected_gain,
                uncertainty=each.uncertainty,
                answers=_answers(groups[each.unit]),
            )
            for each in found.ask
        ],
    )


def _answers(group: Group) -> list[AnswerPart]:
    if group.kind == "exclusive":
        return [AnswerPart(words=value, edit=f"{group.name}={value}") for value in group.values]
    return [
        AnswerPart(words=value if word == "yes" else f"not {value}", edit=f"{group.name}: {value}={word}")
        for value in group.values
        for word in ("yes", "no")
    ]


def flip(loaded: LoadedRun, request: FlipRequest) -> Flipped:
    """The fewest further answers that make the class another."""
    image = read_state(loaded.readout, request.state)
    start = edited(loaded, image, request.edits)
    try:
        found = flips(image, loaded.values, start)
    except UserError as error:
        raise missing(str(error)) from None
    one = found.examples[0]
    groups = {group.name: group for group in image.concepts.groups}
    return Flipped(
        kind=found.kind,
        before=one.before,
        after=one.after,
        edits=None if one.edits is None else [_words(edit, groups[edit.group]) for edit in one.edits],
        groups=None if one.edits is None else [edit.group for edit in one.edits],
    )


def _words(edit: Edit, group: Group) -> str:
    if group.kind == "exclusive":
        return f"{group.name}={edit.answer}"
    if edit.answer in group.values:
        return f"{group.name}: {edit.answer}=yes"
    return f"{group.name}: {edit.answer.removeprefix('not ')}=no"


def head_of(loaded: LoadedRun) -> Head:
    """Everything that a page needs to follow a slider by itself."""
    readout, values = loaded.readout, loaded.values
    means: dict[str, list[float]] = {}
    for place, name in enumerate(readout.classes):
        try:
            means[name] = class_mean(readout, [place]).tolist()
        except UserError:
            continue  # no image of this class is kept; it has no mean
    return Head(
        classes=list(readout.classes),
        task=readout.task,
        thresholds=list(readout.thresholds),
        space=readout.space,
        bypass=readout.bypass,
        linear=readout.head is not None,
        weight=readout.head.weight.tolist() if readout.head else None,
        bias=readout.head.bias.tolist() if readout.head else None,
        reference=loaded.background.bottleneck.tolist(),
        epsilon=EPSILON,
        way=values.way,
        values=values.values[0].tolist(),
        yes=values.yes[0].tolist(),
        no=values.no[0].tolist(),
        low=values.low[0].tolist(),
        high=values.high[0].tolist(),
        slope=values.slope[0].tolist(),
        offset=values.offset[0].tolist(),
        odds_slope=values.odds_slope[0].tolist(),
        odds_offset=values.odds_offset[0].tolist(),
        class_mean=means,
    )
