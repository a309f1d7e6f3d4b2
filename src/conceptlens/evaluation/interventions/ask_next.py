"""Ask me next: the concept whose label would help an image most, for a person with time for one question."""

from collections.abc import Sequence

import numpy as np

from conceptlens.core.documents import Part
from conceptlens.evaluation.interventions.order import descending, entropy, expected_gain, uncertainty
from conceptlens.evaluation.interventions.units import Unit
from conceptlens.evaluation.interventions.value_map import ValueMap
from conceptlens.runs.readout import Readout


class Ask(Part):
    """One question that could be asked."""

    unit: str
    expected_gain: float  # nats of class entropy that its answer takes away on average
    uncertainty: float  # nats, of its own answer


class NextQuestion(Part):
    """What to ask about one image."""

    image: str
    said: str
    entropy: float  # of the class now, in nats
    ask: list[Ask]  # best first


def ask_next(
    readout: Readout, maps: ValueMap, units: list[Unit], images: Sequence[int], *, most: int = 3
) -> list[NextQuestion]:
    """The most useful questions about some images, by position."""
    rows = np.asarray(images, dtype=np.int64)
    maps, bottleneck = maps.rows(rows), readout.bottleneck[rows]
    probabilities = maps.probabilities(readout.concept_probabilities[rows], readout.concepts)
    gains = expected_gain(readout, maps, units, probabilities, bottleneck, rows)
    unsure = uncertainty(units, probabilities)
    logits = readout.logits(bottleneck, rows)
    now, order = entropy(readout, logits), descending(gains)
    return [
        NextQuestion(
            image=readout.ids[row],
            said=spoken(readout, logits[place]),
            entropy=float(now[place]),
            ask=[
                Ask(unit=units[u].name, expected_gain=float(gains[place, u]), uncertainty=float(unsure[place, u]))
                for u in order[place, :most].tolist()
            ],
        )
        for place, row in enumerate(rows.tolist())
    ]


def spoken(readout: Readout, logits: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    """The decision about one image (C,) in words."""
    said = readout.said(logits[None])[0]
    if readout.task == "multilabel":
        return ", ".join(name for name, held in zip(readout.classes, said, strict=True) if held) or "no class"
    return readout.classes[int(said)]


def least_sure(readout: Readout, n: int) -> list[int]:
    """The images whose class is least sure, least sure first."""
    unsure = entropy(readout, readout.logits(readout.bottleneck))
    return [int(row) for row in np.argsort(-unsure, kind="stable")[:n]]
