"""The smallest set of edits that flips a decision.

An edit gives one question another answer (another value of an exclusive group, the opposite of a yes or no), as the
value map writes it. With a linear head the margin of the said class over a rival falls by a sum of one number for each
edited question, so the smallest set for a rival is the largest reductions until they outweigh the margin, and the best
rival gives the smallest set of all: exact, without search. For any other head edits are taken greedily, each the one
that lowers the margin most, and the set may not be the smallest.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from conceptlens.core.documents import Part
from conceptlens.core.errors import UserError
from conceptlens.evaluation.interventions.units import Question, questions
from conceptlens.evaluation.interventions.value_map import ValueMap
from conceptlens.runs.readout import Floats, Indices, Readout

CELLS = 4_000_000  # numbers in memory at once
Kind = Literal["exact", "greedy"]


class Edit(Part):
    """One question with another answer."""

    group: str
    answer: str


class Flip(Part):
    """The edits that flip one image; None where no set of edits does."""

    image: str
    before: str
    after: str | None
    edits: list[Edit] | None


class Flips(Part):
    """Of all images."""

    kind: Kind
    images: int
    cannot: int  # images that no set of edits flips
    median: float | None
    sizes: dict[str, int]  # edits needed → images
    first: dict[str, int]  # group → images that an edit of it alone flips
    examples: list[Flip]


@dataclass(frozen=True)
class Answer:
    """One way to answer one question."""

    question: int
    columns: tuple[int, ...]
    held: tuple[bool, ...]
    edit: Edit


def all_answers(readout: Readout) -> list[Answer]:
    """Every answer to every question."""
    found: list[Answer] = []
    asked: list[tuple[str, Question]] = [
        (group.name, question)
        for group, several in zip(readout.concepts.groups, questions(readout.concepts), strict=True)
        for question in several
    ]
    for place, (name, question) in enumerate(asked):
        for held in question.answers:
            values = [readout.concepts.concepts[column].value for column in question.columns]
            if len(values) == 1:
                words = values[0] if held[0] else f"not {values[0]}"
            else:
                words = values[int(held.argmax())]
            edit = Edit(group=name, answer=words)
            found.append(Answer(place, question.columns, tuple(bool(each) for each in held), edit))
    return found


def flips(readout: Readout, maps: ValueMap, start: Floats | None = None, *, examples: int = 50) -> Flips:
    """The smallest flips of all images; those of the first `examples` images are written out.

    Args:
        readout: The images.
        maps: How answers are written.
        start: (N, K) what the head reads now, where some answers were given already; the images' own by default.
        examples: How many.
    """
    if readout.task == "multilabel":
        raise UserError("Flips are of a single decision; this run decides on several labels at once.")
    answers = all_answers(readout)
    step = max(1, CELLS // max(len(answers) * len(readout.classes), 1))
    linear = readout.head is not None
    rows = [np.arange(start, min(start + step, len(readout))) for start in range(0, len(readout), step)]
    search, now = (_exact if linear else _greedy), readout.bottleneck if start is None else start
    found = [each for part in rows for each in search(readout, maps.rows(part), answers, part, now[part])]
    return tell(found, "exact" if linear else "greedy", examples)


def tell(found: list[Flip], kind: Kind, examples: int) -> Flips:
    """Sizes and groups of many flips."""
    sizes = [len(flip.edits) for flip in found if flip.edits is not None]
    alone = Counter(flip.edits[0].group for flip in found if flip.edits and len(flip.edits) == 1)
    return Flips(
        kind=kind,
        images=len(found),
        cannot=len(found) - len(sizes),
        median=float(np.median(sizes)) if sizes else None,
        sizes={str(size): count for size, count in sorted(Counter(sizes).items())},
        first=dict(alone.most_common()),
        examples=found[:examples],
    )


def _moves(readout: Readout, maps: ValueMap, answers: list[Answer], rows: Indices, bottleneck: Floats) -> Floats:
    """What each answer adds to the logits of a linear head, (n, A, C)."""
    assert readout.head is not None
    weight = readout.head.weight
    moves = np.empty((len(bottleneck), len(answers), len(weight)))
    for place, answer in enumerate(answers):
        columns = list(answer.columns)
        change = _written(readout, maps, answer, rows) - bottleneck[:, columns]
        moves[:, place] = change @ weight[:, columns].T
    return moves


def _written(readout: Readout, maps: ValueMap, answer: Answer, rows: Indices) -> Floats:
    """Scores (n, V) of an answer, of the images at these positions, whose maps these are."""
    at = np.ix_(rows, np.array(answer.columns))
    return maps.answer(answer.columns, np.array(answer.held), readout.bottleneck[at], readout.read_labels[at])


def said_already(readout: Readout, answers: list[Answer], rows: Indices) -> npt.NDArray[np.bool_]:
    """(n, A): the answers that the model gives itself; to give them again would be no edit."""
    read = readout.read_labels[rows] == 1
    return np.stack([(read[:, answer.columns] == answer.held).all(1) for answer in answers], axis=1)


def _exact(readout: Readout, maps: ValueMap, answers: list[Answer], rows: Indices, start: Floats) -> list[Flip]:
    logits = readout.logits(start, rows)
    said = logits.argmax(1)
    n, everyone = len(rows), np.arange(len(rows))
    moves = _moves(readout, maps, answers, rows, start)
    lowered = moves - moves[everyone, :, said][:, :, None]  # (n, A, C): what each answer takes off said − rival
    lowered[said_already(readout, answers, rows)] = -np.inf
    margins = logits[everyone, said][:, None] - logits  # (n, C)
    starts = np.flatnonzero(np.diff([-1, *(answer.question for answer in answers)]))
    best = np.maximum.reduceat(lowered, starts, axis=1)  # (n, Q, C)
    order = np.argsort(-best, axis=1, kind="stable")
    reached = np.cumsum(np.maximum(np.take_along_axis(best, order, 1), 0), axis=1) > margins[:, None, :]
    needed = np.where(reached.any(1), reached.argmax(1) + 1, len(starts) + 1)  # (n, C)
    needed[everyone, said] = len(starts) + 1
    ends = np.append(starts[1:], len(answers))
    found = []
    for place in range(n):
        count = int(needed[place].min())
        # Of rivals that need as few edits, the one that ends furthest ahead.
        ties = np.flatnonzero(needed[place] == count)
        before, image = readout.classes[said[place]], readout.ids[rows[place]]
        if count > len(starts):
            found.append(Flip(image=image, before=before, after=None, edits=None))
            continue
        ahead = [best[place, order[place, :count, rival], rival].sum() - margins[place, rival] for rival in ties]
        rival = int(ties[int(np.argmax(ahead))])
        edits, bottleneck, one = [], start[[place]].copy(), np.array([place])
        for question in order[place, :count, rival].tolist():
            span = slice(int(starts[question]), int(ends[question]))
            answer = answers[span.start + int(lowered[place, span, rival].argmax())]
            edits.append(answer.edit)
            bottleneck[:, list(answer.columns)] = _written(readout, maps.rows(one), answer, rows[one])
        after = readout.logits(bottleneck, rows[place : place + 1]).argmax(1)[0]
        found.append(Flip(image=image, before=before, after=readout.classes[after], edits=edits))
    return found


def _greedy(readout: Readout, maps: ValueMap, answers: list[Answer], rows: Indices, start: Floats) -> list[Flip]:
    n, everyone = len(rows), np.arange(len(rows))
    bottleneck = start.copy()
    said = readout.logits(bottleneck, rows).argmax(1)
    edits: list[list[Edit]] = [[] for _ in rows]
    after = np.full(n, -1)
    used = said_already(readout, answers, rows)
    question = np.array([answer.question for answer in answers])
    for _ in range(int(question.max()) + 1):
        margins = np.full((n, len(answers)), np.inf)
        for place, answer in enumerate(answers):
            edited = bottleneck.copy()
            edited[:, list(answer.columns)] = _written(readout, maps, answer, rows)
            logits = readout.logits(edited, rows)
            own = logits[everyone, said]
            logits[everyone, said] = -np.inf
            margins[:, place] = own - logits.max(1)
        best = np.where(used, np.inf, margins).argmin(1)
        for place in np.flatnonzero((after < 0) & ~used.all(1)).tolist():
            answer = answers[int(best[place])]
            edits[place].append(answer.edit)
            one = np.array([place])
            bottleneck[place, list(answer.columns)] = _written(readout, maps.rows(one), answer, rows[one])[0]
            used[place] |= question == answer.question
        now = readout.logits(bottleneck, rows).argmax(1)
        after = np.where((after < 0) & (now != said), now, after)
        if (after >= 0).all():
            break
    return [
        Flip(
            image=readout.ids[row],
            before=readout.classes[said[place]],
            after=readout.classes[after[place]] if after[place] >= 0 else None,
            edits=edits[place] if after[place] >= 0 else None,
        )
        for place, row in enumerate(rows.tolist())
    ]
