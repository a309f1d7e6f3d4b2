"""The shapes of images and predictions."""

from typing import Annotated, Literal

from pydantic import Field

from conceptlens.core.documents import Part
from conceptlens.explanations.document import (
    Account,
    ClassReading,
    ConceptReading,
    LegendEntry,
    LogitDecomposition,
    Reference,
)
from conceptlens.web.schemas.runs import Answer, Split

Show = Literal["all", "right", "wrong", "uncertain"]
Numbers = Annotated[list[float], Field(max_length=100_000)]


class ImageName(Part):
    """An image of the run's own data."""

    split: Split
    row: int = Field(ge=0, le=10**9)


class ImageItem(ImageName):
    """An image in a list."""

    id: str
    truth: list[str] | None
    predicted: list[str] | None
    probability: float | None
    margin: float | None
    right: bool | None
    thumbnail: str


class Images(Answer):
    """A page of images."""

    split: Split
    total: int
    page: int
    size: int
    stored: bool
    why: str | None
    command: str | None = None
    items: list[ImageItem]


class SeenImage(Part):
    """The image that a prediction is of."""

    split: Split | None
    row: int | None
    id: str


class ConceptPart(ConceptReading):
    """A concept of one image."""

    index: int
    bottleneck: float
    slot: int | None


class State(Part):
    """All that decides the class of one image: what `intervene`, `ask` and `flip` start from."""

    bottleneck: Numbers  # (K,)
    concept_logits: Numbers  # (K,)
    rest: Numbers  # (C,): what a bypass adds
    context: Numbers = Field(default_factory=list)  # (E,): through which the head reads its concepts; mostly none


class ByteMaps(Part):
    """Maps as bytes, map after map, cells row by row: byte / 255 × scale, or (byte − 128) / 127 × scale of evidence."""

    of: list[int]  # slots or concepts
    scale: list[float]
    data: str  # base64


class Maps(Part):
    """The maps of one image."""

    grid: tuple[int, int]
    evidence: ByteMaps | None = None  # of concepts that have a place; signed
    unplaced: list[float] | None = None  # (K,): concept logit − the sum of its evidence
    attention: ByteMaps | None
    assignment: ByteMaps | None
    gradcam: ByteMaps | None
    gradcam_at: str | None
    without: dict[str, str]
    captions: dict[str, str] = Field(default_factory=dict)  # by kind: why its maps are to be doubted
    failed: dict[str, str] = Field(default_factory=dict)  # by kind: why its maps did not pass their test
    unmoving: list[str] = Field(default_factory=list)  # concepts whose maps hardly move from image to image


class IndexPart(Part):
    """The nearest code of each patch."""

    grid: tuple[int, int]
    codes: list[int]
    similarity: list[float] | None
    legend: list[LegendEntry]
    sample: int


class Prediction(Answer):
    """Everything about one image."""

    run: str
    weights: str
    image: SeenImage
    picture: str
    truth: list[str] | None
    predicted: list[str]
    about: str
    rival: str | None
    sentence: str
    classes: list[ClassReading]
    concepts: list[ConceptPart]
    account: Account
    decompositions: list[LogitDecomposition]
    reference: Reference
    deciding: list[int]
    bypass: str | None
    state: State
    truth_edits: list[str]
    unlike_training: bool | None = None  # None: not known
    prediction_set: list[str] | None = None  # classes that cannot be excluded; None: not known
    cautions: list[str] = Field(default_factory=list)  # both in words
    maps: Maps
    index: IndexPart | None
    took_ms: float
