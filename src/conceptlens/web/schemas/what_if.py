"""The shapes of what-if and of corrections."""

from typing import Annotated, Literal

from pydantic import Field

from conceptlens.core.documents import Part
from conceptlens.explanations.document import ClassReading, LogitDecomposition
from conceptlens.web.schemas.image import ImageName, State
from conceptlens.web.schemas.runs import Answer

Edit = Annotated[str, Field(max_length=500, examples=["granule colour=pink"])]
Edits = Annotated[list[Edit], Field(max_length=2000)]


class Head(Answer):
    """The class head, and what labels and probabilities are worth to it."""

    classes: list[str]
    task: str
    thresholds: list[float]
    space: str
    bypass: str | None
    linear: bool
    weight: list[list[float]] | None
    bias: list[float] | None
    reference: list[float]
    epsilon: float  # that a head of log-probabilities adds to each
    way: str  # how an answer is written, see `conceptlens interventions --to`
    values: list[list[float]]  # (K, W): over an exclusive group, its first W columns, when told concept k
    yes: list[float]  # of a single concept
    no: list[float]
    low: list[float]
    high: list[float]
    slope: list[float]
    offset: list[float]
    odds_slope: list[float]
    odds_offset: list[float]
    class_mean: dict[str, list[float]]


class InterveneRequest(Part):
    """Some concepts set."""

    state: State
    edits: Edits
    about: str | None = Field(default=None, max_length=500)


class Side(Part):
    """What the model says."""

    said: list[str]
    classes: list[ClassReading]


class Change(Part):
    """A concept whose score an edit changed."""

    concept: int
    before: float
    after: float


class Intervention(Answer):
    """Before and after."""

    edits: list[str]
    before: Side
    after: Side
    bottleneck: list[float]
    changed: list[Change]
    decompositions: list[LogitDecomposition]
    took_ms: float


class AskRequest(Part):
    """What to ask next."""

    state: State
    edits: Edits = Field(default_factory=list)
    most: int = Field(default=5, ge=1, le=1000)


class AnswerPart(Part):
    """One way to answer."""

    words: str
    edit: str


class Question(Part):
    """One question that could be asked."""

    unit: str
    kind: Literal["exclusive", "independent"]
    expected_gain: float
    uncertainty: float
    answers: list[AnswerPart]


class Asked(Answer):
    """Best question first."""

    said: str
    entropy: float
    ask: list[Question]


class FlipRequest(Part):
    """What would flip the class."""

    state: State
    edits: Edits = Field(default_factory=list)


class Flipped(Answer):
    """The smallest set of edits that does; null where none does."""

    kind: Literal["exact", "greedy"]
    before: str
    after: str | None
    edits: list[str] | None
    groups: list[str] | None


class CorrectionRow(Part):
    """A label that a person gave."""

    time: str
    rater: str
    image: str
    concept: str
    before: str
    said: str
    after: str


class CorrectRequest(Part):
    """Labels for one image, as edits that a label can express."""

    rater: str = Field(min_length=1, max_length=80)
    image: ImageName
    edits: Annotated[list[Edit], Field(min_length=1, max_length=2000)]


class Corrections(Answer):
    """The file, newest first."""

    file: str
    total: int
    rows: list[CorrectionRow]


class Corrected(Corrections):
    """What was added to it."""

    added: int
    note: str = ""  # which corrections were not saved, as they change nothing
