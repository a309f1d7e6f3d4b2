"""The shapes of requests and answers about studies with people (docs/api.md)."""

from typing import Annotated

from pydantic import Field

from conceptlens.core.documents import Part
from conceptlens.web.schemas.runs import Answer
from conceptlens.workflows.study.analyze import Analysis
from conceptlens.workflows.study.responses import RATER, Answered

MOST_TRIALS = 20_000
Code = Annotated[str, Field(pattern=RATER, description="The code of a rater")]
Word = Annotated[str, Field(min_length=1, max_length=40, description="What a rater was given when they began")]


class StudyCard(Part):
    """A pack at a glance; of one that cannot be read only its name and the reason."""

    key: str
    name: str
    folder: str
    reason: str | None = None
    study: str | None = None
    images: int = 0
    questions: int = 0
    raters: int = 0  # who have begun
    complete: int = 0
    closed: bool = False


class Studies(Answer):
    """All packs."""

    studies: list[StudyCard]


class RaterPart(Part):
    """How far a rater is; never what they answered."""

    rater: str
    answered: int
    of: int
    complete: bool
    saved: str | None = None
    here: bool  # answers on this server; else their file was put beside the others
    reason: str | None = None  # why their file cannot be read


class StudyDetail(Answer):
    """One pack."""

    card: StudyCard
    page: str  # the address of the raters' page
    rater_token: str | None  # what raters enter there; None: the server asks for no token
    raters: list[RaterPart]
    models: int  # trained models that are served beside it, whose maps anyone can look at
    alone: str  # the command that serves the pack without them
    analyze: str  # the command that closes it


class BeginRequest(Part):
    """A rater begins, or goes on."""

    rater: Code
    word: Word | None = None


class Begun(Answer):
    """What a rater needs."""

    rater: str
    word: str
    answers: dict[str, Answered]
    comment: str
    started: str


class KeepRequest(Part):
    """All that a rater has answered so far."""

    word: Word
    started: str = Field(default="", pattern=r"^[0-9TZ:.+-]{0,40}$")
    comment: str = Field(default="", max_length=2000)
    order: list[Annotated[str, Field(max_length=80)]] = Field(default_factory=list, max_length=MOST_TRIALS)
    answers: dict[Annotated[str, Field(max_length=80)], Answered] = Field(max_length=MOST_TRIALS)


class Kept(Answer):
    """What is on file now."""

    answered: int
    of: int
    complete: bool
    saved: str


class CloseRequest(Part):
    """End a study."""

    unfinished: bool = False  # also if some raters have not answered everything


class StudyTable(Part):
    """The paper's Table 6 with what it leaves out."""

    head: list[str]
    rows: list[list[str]]
    markdown: str


class StudyResult(Answer):
    """What the answers say."""

    analysis: Analysis
    table: StudyTable
