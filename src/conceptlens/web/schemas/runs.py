"""The shapes of requests and answers (docs/api.md): those of runs, and what all share."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from conceptlens.core.documents import Part
from conceptlens.runs.results import Kind
from conceptlens.runs.verdicts import Badge
from conceptlens.web.server.problems import Code

Status = Literal["running", "done", "failed", "broken"]
Split = Literal["train", "val", "test"]


class Answer(Part):
    """A whole answer."""

    schema_: Literal[1] = Field(default=1, alias="schema")
    model_config = ConfigDict(allow_inf_nan=False, extra="forbid", populate_by_name=True)


class ErrorPart(Part):
    """What went wrong."""

    code: Code
    message: str
    command: str | None = None


class ErrorAnswer(Answer):
    """The body of every answer with a status of 400 or more."""

    error: ErrorPart


class UploadLimits(Part):
    """What an uploaded file may be."""

    bytes: int
    pixels: int
    formats: list[str]


class About(Answer):
    """The server."""

    version: str
    api: Literal[1] = 1
    token: bool
    upload: UploadLimits


class RankCurve(Part):
    """A sparkline."""

    name: str
    values: list[float]


class RunCard(Part):
    """A result folder at a glance; of a broken one only its name and the reason."""

    key: str
    name: str
    folder: str
    within: str | None = None
    status: Status
    reason: str | None = None
    kind: Kind | None = None
    about: str | None = None
    method: str | None = None
    regularizer: str | None = None
    bypass: str | None = None
    data: str | None = None
    images: int | None = None
    encoder: str | None = None
    concepts: str | None = None
    seed: int | None = None
    unverified: bool = False
    scores: dict[str, float | str] | None = None
    rank: RankCurve | None = None
    epochs: int | None = None
    epoch: int | None = None
    changed: str | None = None
    has: list[str] = Field(default_factory=list)
    trust: Badge | None = None  # the worst that was found; None: no trained model
    verdicts: dict[str, str] = Field(default_factory=dict)  # the outcome of each examination, by its side


class Runs(Answer):
    """All runs."""

    runs: list[RunCard]
    starts: list[str]  # commands that the page may start


class GroupPart(Part):
    """A group of concepts; concept `start + i` is value i."""

    name: str
    kind: Literal["exclusive", "independent"]
    part: str | None
    start: int
    values: list[str]
    texts: list[str]
    under: tuple[str, str | None] | None = None  # the coarser group, and the value under which this one has a meaning


class RunDetail(Answer):
    """One run."""

    card: RunCard
    recipe: dict[str, Any] | None
    classes: list[str] | None
    task: str | None
    image_size: int | None
    fit: str | None
    groups: list[GroupPart]
    splits: dict[str, int]
    metrics: dict[str, Any] | None
    environment: dict[str, Any] | None
    missing: dict[str, str]
    results: dict[str, str]  # documents that are there: what each is about


class History(Answer):
    """Lines of training."""

    status: Status
    reason: str | None
    cursor: str
    reset: bool
    lines: list[dict[str, Any]]


class AnyDocument(BaseModel):
    """A file of the run as it was written."""

    model_config = ConfigDict(extra="allow")
