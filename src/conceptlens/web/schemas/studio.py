"""The shapes of the codebook studio: what a study's commands wrote, and what is asked of its model."""

from typing import Annotated, Literal

from pydantic import Field

from conceptlens.core.documents import Part
from conceptlens.web.schemas.runs import Answer

ResultName = Literal["tokens", "edit", "search", "masking", "pairs", "bias"]
PictureName = Literal["tokens", "edit", "edit-path", "search", "search-path", "masking", "bias"]
Fill = Literal["code", "black", "mean", "blur"]
STEPS = 500  # of an edit, at most
Row = Annotated[list[Annotated[int, Field(ge=0, le=2**31 - 1)]], Field(min_length=1, max_length=256)]
Grid = Annotated[list[Row], Field(min_length=1, max_length=256)]
Cell = Annotated[int, Field(ge=0, le=65_535)]
Cells = Annotated[list[Cell], Field(min_length=1, max_length=65_536)]
CLIENT = r"^[A-Za-z0-9_-]+$"
Client = Annotated[str, Field(min_length=1, max_length=64, pattern=CLIENT)]
Word = Annotated[str, Field(min_length=1, max_length=500)]


class StudioModel(Part):
    """The model whose tokens are studied."""

    name: str
    here: bool
    why: str | None = None  # it is not


class ShownImage(Part):
    """An image of a list."""

    row: int
    concept: int
    probability: float  # of its own concept, by the extractor
    picture: str | None


class StudioLimits(Part):
    """What may be asked of the model."""

    steps: int
    seconds: float


class Studio(Answer):
    """A study, from its files alone."""

    model: StudioModel
    source: str  # `generated`, or the data that was encoded
    network: str
    grid: tuple[int, int]
    codes: int
    width: int
    concepts: list[str]
    accuracy: dict[str, float]
    variant: str | None  # of the importance
    images: list[ShownImage]
    has: list[ResultName]
    pictures: dict[PictureName, str]
    missing: dict[str, str]
    limits: StudioLimits
    names: dict[int, str]  # what people call tokens


class Heat(Part):
    """Importance of each token to a concept: level / 255 × most, row by row."""

    concept: int
    most: float
    levels: list[int]


class Neighbor(Part):
    """A code near another one."""

    code: int
    distance: float


class Reading(Answer):
    """A token grid as the extractor reads it."""

    tokens: list[list[int]]
    probabilities: list[float]
    concept: int | None = None  # what it was asked for, where that is known
    heat: list[Heat] = Field(default_factory=list)
    near: dict[int, list[Neighbor]] = Field(default_factory=dict)
    picture: str | None = None  # an address, or the picture itself
    title: str = ""


class Ask(Part):
    """Given with everything that is asked of the model: one thing at a time is done for a client."""

    client: Client


class GenerateRequest(Ask):
    """A new image."""

    condition: Word = "neutral"
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


class HeatRequest(Ask):
    """The importance of an image's tokens to a concept."""

    tokens: Grid
    concept: int = Field(ge=0, le=100_000)


class HeatAnswer(Answer):
    """One map."""

    heat: Heat


class MaskRequest(Ask):
    """Tokens that shall be hidden."""

    tokens: Grid
    cells: Cells
    hide: Literal["positions", "ids"] = "positions"
    fill: Fill = "code"


class Masked(Answer):
    """An image without some of its tokens."""

    hidden: list[int]
    before: list[float]
    after: list[float]
    picture: str | None  # None for a model without a decoder
    note: str


class EditRequest(Ask):
    """A region that shall show a concept."""

    tokens: Grid
    cells: Cells
    target: Word
    steps: int = Field(default=120, ge=1, le=STEPS)
    method: Literal["tokens", "embeddings"] = "tokens"
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


class Changed(Part):
    """A token that is another one now."""

    row: int
    column: int
    before: int
    after: int


class EditEvent(Part):
    """A line of an edit's answer. `waiting` and `step` come as it goes; `done` or `failed` is the last."""

    kind: Literal["waiting", "step", "done", "failed"]
    ahead: int | None = None  # others who wait before it
    step: int | None = None
    probability: float | None = None  # of the target, by the extractor
    picture: str | None = None
    reading: Reading | None = None
    changed: list[Changed] | None = None
    stopped: bool | None = None  # the time was up: the best draw until then
    seconds: float | None = None
    message: str | None = None
