"""The shapes of answers about all images of a split; its columns come as one safetensors file."""

from typing import Literal

from conceptlens.core.documents import Part
from conceptlens.web.schemas.runs import Answer, Split


class PassAnswer(Answer):
    """How far the pass of the model over the images of a split is."""

    state: Literal["none", "running", "done", "failed"]
    done: int
    total: int
    seconds_left: float | None
    reason: str | None


class NeighborsAnswer(Answer):
    """The images nearest to one, nearest first."""

    split: Split
    row: int
    by: Literal["concepts", "tokens"]
    rows: list[int]
    similarity: list[float]  # cosines


class SuspectPart(Part):
    """A label that is likely wrong."""

    row: int
    of: str  # "class", or a concept group
    label: str
    instead: str
    score: float
    why: Literal["disagreement", "duplicate"]
    other: int | None


class SuspectsAnswer(Answer):
    """Likely label errors, likeliest first."""

    split: Split
    total: int
    suspects: list[SuspectPart]
