"""What speaks for a class in one image, question by question: a group of exclusive values is one question."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.concepts.concept_set import Concept
from conceptlens.data.labels.words import yes_no
from conceptlens.explanations.document import Aside, Reason

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
MOST = 3  # reasons in a sentence, and concepts whose maps are shown
FAINT = 0.2  # a reason weaker than this share of the strongest is not told


def reasons(
    concepts: ConceptSet,
    read: Floats,
    values: Sequence[float] | None,
    raised: Flags,
    than: str = "than usual",
    seen: Flags | None = None,
) -> tuple[list[Reason], list[Aside]]:
    """All questions, the weightiest first, and what is no reason: groups that do not apply, values never seen.

    A question is told by the answer that the model reads, if that answer adds much of the weight. It need not be: where
    all colors of a group score lower than usual, the likeliest of them is not why. Then the value that adds most is
    told, as more or less than in the reference.

    Args:
        concepts: The vocabulary.
        read: (K,) probabilities.
        values: (K,) contributions; None where there are none.
        raised: (K,) whether a concept scores higher than in the reference.
        than: The reference, in words; what is usual is the average image.
        seen: (K,) whether any training image is labeled with the concept; all of them by default.
    """
    found: list[Reason] = []
    aside: list[Aside] = []
    applies = concepts.applying(concepts.held(read))
    for group in concepts.groups:
        columns, exclusive = range(group.concepts.start, group.concepts.stop), group.kind == "exclusive"
        if not applies[columns[0]]:
            likeliest = max(columns, key=lambda k: read[k])
            weight = None if values is None else sum(values[k] for k in columns)
            aside.append(Aside(concept=likeliest, question=group.name, why="does not apply", weight=weight))
            continue
        known = [k for k in columns if seen is None or seen[k]]
        for k in columns:
            if k not in known:
                weight = None if values is None else values[k]
                aside.append(Aside(concept=k, question=concepts.names[k], why="in no training image", weight=weight))
        for span in [known] if exclusive and known else [[k] for k in known]:
            question = group.name if exclusive else concepts.names[span[0]]
            found.append(_reason(concepts, question, span, exclusive, read, values, raised, than))
    found.sort(key=lambda each: -(each.probability if each.weight is None else abs(each.weight)))
    return found, aside


def _reason(
    concepts: ConceptSet,
    question: str,
    span: Sequence[int],
    exclusive: bool,
    read: Floats,
    values: Sequence[float] | None,
    raised: Flags,
    than: str,
) -> Reason:
    answer = max(span, key=lambda k: read[k])
    holds = exclusive or bool(read[answer] >= 0.5)
    concept = concepts.concepts[answer]
    plain = Reason(
        concept=answer,
        question=question,
        answer=concept.value if exclusive else "yes" if holds else "no",
        words=_words(concept, holds),
        probability=float(read[answer] if holds else 1 - read[answer]),
        weight=None,
    )
    if values is None:
        return plain
    weight = sum(values[k] for k in span)
    cause = max(span, key=lambda k: values[k] * weight)
    adds = holds == raised[answer] and values[answer] * weight >= values[cause] * weight / 2
    other = len(span) == 2 and cause != answer and not raised[cause]  # of two, less of one is the other
    if adds or other:
        return plain.model_copy(update={"weight": weight})
    told, more = concepts.concepts[cause], "more" if raised[cause] else "less"
    return Reason(
        concept=cause,
        question=question,
        answer=f"{more} {told.value} {than}",
        words=_compared(told, more, than),
        probability=float(read[cause]),
        weight=weight,
        compared=True,
    )


def _words(concept: Concept, holds: bool) -> str:
    """The concept's own phrase, or one made of its group and value."""
    phrase = concept.phrase if holds else concept.absent
    link = ":" if yes_no(concept.value) is not None else " is"
    return phrase or f"{concept.group}{link} {concept.value if holds else f'not {concept.value}'}"


def _compared(concept: Concept, more: str, than: str) -> str:
    if concept.phrase:
        return f"there is {more} sign {than} that {concept.phrase}"
    link = ":" if yes_no(concept.value) is not None else " is"
    return f"{concept.group}{link} {more} {concept.value} {than}"


def speaking(found: Sequence[Reason], sign: int = 1) -> list[Reason]:
    """The few that speak for (`sign` 1) or against (−1), strongest first."""
    told = [each for each in found if sign * (each.weight or 0) > 0]
    return [each for each in told[:MOST] if abs(each.weight or 0) >= FAINT * abs(told[0].weight or 0)]


def deciding(found: Sequence[Reason]) -> list[int]:
    """The concepts of the sentence, and if there are few of them, of what weighs most after them."""
    return list(dict.fromkeys(each.concept for each in [*speaking(found), *found]))[:MOST]
