"""The shapes of answers about methods."""

from typing import Literal

from conceptlens.core.documents import Part
from conceptlens.web.schemas.comparison import Measured, Supervision
from conceptlens.web.schemas.runs import Answer, RunCard


class MethodScheme(Part):
    """A method as a picture: what stands at each place of patches → slots → concepts → class."""

    encoder: str
    reads: Literal["patches", "image", "layers"]
    gather: str | None = None
    slots: str | None = None
    score: str | None = None
    text: bool = False
    concepts: str | None = "scores"
    decide: str
    bypass: str | None = None
    beside: str | None = None  # what shapes the tokens or the vector in training, and is gone afterwards
    own: list[str]  # the places at which it differs from others


class MethodCard(Part):
    """What a registered method is."""

    name: str
    title: str
    paper: str | None
    sentences: list[str]
    variant: str | None  # how this name differs from its family's first
    family: list[str]
    scheme: MethodScheme
    supervision: Supervision
    supervision_title: str
    bypass: str | None
    attention: bool
    evidence: bool = False
    command: str


class Methods(Answer):
    """Every registered method."""

    methods: list[MethodCard]


class Evidence(Part):
    """A row of a comparison among the served folders that is about a method."""

    run: str  # the comparison's key
    comparison: str
    data: str
    images: int
    supervision: Supervision
    block: str
    row: str
    control: bool
    verdict: str | None
    trainings: int
    measures: dict[str, Measured]


class MethodEvidence(Answer):
    """What the served folders say of a method: rows of comparisons, and single models."""

    method: str
    rows: list[Evidence]
    runs: list[RunCard]
