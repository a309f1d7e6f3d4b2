"""The shapes of the table of runs."""

from typing import Annotated

from pydantic import Field

from conceptlens.core.documents import Part
from conceptlens.web.schemas.runs import Answer

Key = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9._-]+$")]


class TableRow(Part):
    """What a card does not say of a trained model."""

    key: str
    split: str | None = None  # whose images the metrics are of
    metrics: dict[str, float] = Field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = Field(default_factory=dict)
    tag: str = ""
    note: str = ""
    reason: str | None = None  # why nothing is known


class TableAnswer(Answer):
    """All trained models."""

    rows: list[TableRow]


class BestRequest(Part):
    """Which of these is best?"""

    metric: str = Field(max_length=100)
    runs: Annotated[list[Key], Field(min_length=2, max_length=20)]


class Best(Answer):
    """The highest value, and whether it differs significantly from every other."""

    metric: str
    images: int
    values: dict[str, float]
    p: dict[str, float]  # of the highest against each other run, corrected by Holm's method
    highest: str
    best: str | None  # None: no significant difference from some other run
