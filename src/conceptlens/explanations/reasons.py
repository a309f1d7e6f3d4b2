"""What speaks for a class in one image, question by question: a group of exclusive values is one question."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.data.labels.words import yes_no

Floats = npt.NDArray[np.float64]
MOST = 3  # reasons in a sentence, and concepts whose maps are shown
FAINT = 0.2  # a reason weaker than this share of the strongest is not told


@dataclass(frozen=True)
class Reason:
    """One question about an image and how the model answers it."""

    concept: int  # the one that is told
    words: str
    probability: float  # of what is told
    weight: float  # what the question adds; without contributions, its probability
    compared: bool = False  # told as more or less than in the reference


def reasons(
    concepts: ConceptSet,
    read: Floats,
    values: Sequence[float] | None,
    raised: npt.NDArray[np.bool_],
    than: str = "than usual",
) -> list[Reason]:
    """All questions, the weightiest first.

    A question is told by the answer that the model reads, if that answer adds much of the weight. It need not be: where
    all colors of a group score lower than usual, the likeliest of them is not why. Then the value that adds most is
    told, as more or less than in the reference.

    Args:
        concepts: The vocabulary.
        read: (K,) probabilities.
        values: (K,) contributions; None where there are none.
        raised: (K,) whether a concept scores higher than in the reference.
        than: The reference, in words; what is usual is the average image.
    """
    found: list[Reason] = []
    for group in concepts.groups:
        start, stop = int(group.concepts.start), int(group.concepts.stop)
        spans = [range(start, stop)] if group.kind == "exclusive" else [range(k, k + 1) for k in range(start, stop)]
        for span in spans:
            answer = max(span, key=lambda k: read[k])
            holds = len(span) > 1 or bool(read[answer] >= 0.5)
            share = float(read[answer] if holds else 1 - read[answer])
            value = concepts.concepts[answer].value
            if values is None:
                found.append(Reason(answer, _words(group.name, value, holds), share, share))
                continue
            weight = sum(values[k] for k in span)
            cause = max(span, key=lambda k: values[k] * weight)
            adds = holds == raised[answer] and values[answer] * weight >= values[cause] * weight / 2
            other = len(span) == 2 and cause != answer and not raised[cause]  # of two, less of one is the other
            if adds or other:
                found.append(Reason(answer, _words(group.name, value, holds), share, weight))
                continue
            told = concepts.concepts[cause].value
            link = ":" if yes_no(told) is not None else " is"
            change = f"{group.name}{link} {'more' if raised[cause] else 'less'} {told} {than}"
            found.append(Reason(cause, change, float(read[cause]), weight, compared=True))
    return sorted(found, key=lambda each: -abs(each.weight))


def _words(group: str, value: str, holds: bool) -> str:
    if yes_no(value) is not None:
        return f"{group}: {value if holds else f'not {value}'}"
    return f"{group} is {value if holds else f'not {value}'}"


def speaking(found: Sequence[Reason], sign: int = 1) -> list[Reason]:
    """The few that speak for (`sign` 1) or against (−1), strongest first."""
    told = [each for each in found if sign * each.weight > 0]
    return [each for each in told[:MOST] if abs(each.weight) >= FAINT * abs(told[0].weight)]


def deciding(first: Sequence[Reason], second: Sequence[Reason]) -> list[int]:
    """The concepts of the sentence, and if there are few of them, of what weighs most after them."""
    order = [*speaking(first), *speaking(second), *first]
    return list(dict.fromkeys(each.concept for each in order))[:MOST]
