"""The shapes of answers about comparisons: `results.json` as `conceptlens compare` writes it, and its runs."""

from typing import Literal

from pydantic import ConfigDict, Field

from conceptlens.core.documents import Part
from conceptlens.web.schemas.runs import Answer

Supervision = Literal["text", "class-table", "image-labels", "class-labels"]
Interval = tuple[float, float]


class _Read(Part):
    """Of a file that a newer version may have added to."""

    model_config = ConfigDict(allow_inf_nan=False, extra="ignore")


class Measured(_Read):
    """A measure over trainings; a fraction."""

    mean: float
    sd: float | None
    interval: Interval | None
    by_training: list[float | None]


class Counted(_Read):
    """A number over runs."""

    mean: float
    sd: float | None
    by_run: list[float | None]


class ComparedRow(_Read):
    """A method on one data set; `control_of` names the row that it repeats with random text vectors."""

    name: str
    control_of: str | None
    method: str
    regularizer: str | None
    encoder: str
    encoder_trains: bool | int | str | None
    text: str | None
    bypass: str | None
    trainings: int
    concepts: int
    measures: dict[str, Measured]
    numbers: dict[str, Counted]
    ranks: dict[str, list[tuple[float, float, float, float]]]  # epoch, mean, lowest, highest
    runs: list[str] = Field(default_factory=list)  # keys of its trainings, where they are served


class Versus(_Read):
    """One row against another, on one measure."""

    measure: str
    first: str
    second: str
    difference: float | None
    interval: Interval | None
    p_images: float | None
    p_seeds: float | None
    p: float | None
    detectable: float | None
    trainings: int
    different: bool


class Block(_Read):
    """Rows that were told the same about concepts: the only ones that are ranked against each other."""

    supervision: Supervision
    title: str
    rows: list[ComparedRow]
    best: dict[str, str | None]
    comparisons: list[Versus]
    controls: list[Versus]
    verdicts: dict[str, str]


class ZeroShot(_Read):
    """What an encoder knew of the concepts before any training."""

    encoder: str
    text: str | None
    auc: float | None
    auc_within_class: float | None


class ComparedData(_Read):
    """A data set."""

    name: str
    images: int
    units: int
    classes: int
    zero_shot: list[ZeroShot]
    blocks: list[Block]


class Folds(_Read):
    """Of a cross-validation."""

    k: int
    repeats: int


class Statistics(_Read):
    """How differences are judged."""

    primary: str
    confidence: float
    alpha: float
    power: float


class Jobs(_Read):
    """How far a comparison is."""

    done: int
    of: int


class Failed(_Read):
    """A training that did not end well."""

    job: str
    reason: str | None


class Comparison(Answer):
    """A whole comparison."""

    model_config = ConfigDict(allow_inf_nan=False, extra="ignore", populate_by_name=True)

    name: str
    seeds: list[int]
    folds: Folds | None
    trials: int
    statistics: Statistics
    jobs: Jobs
    failed: list[Failed]
    data: list[ComparedData]
