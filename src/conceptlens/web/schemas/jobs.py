"""The shapes of jobs: forms, the queue, a log."""

from typing import Annotated, Literal

from pydantic import Field

from conceptlens.core.documents import Part
from conceptlens.web.jobs.store import State
from conceptlens.web.schemas.runs import Answer

Value = bool | int | float | Annotated[str, Field(max_length=200)] | None
Name = Annotated[str, Field(max_length=100, pattern=r"^[a-z][a-z_]*$")]


class OptionPart(Part):
    """An option of a command."""

    name: str
    kind: Literal["flag", "choice", "int", "float", "text"]
    several: bool
    choices: list[str]
    default: str | None
    help: str


class FormPart(Part):
    """A command with its options."""

    command: str
    about: str
    needs_run: bool
    options: list[OptionPart]
    settings: list[OptionPart]  # of the recipe, by their dotted names


class JobPart(Part):
    """A job of the queue."""

    id: str
    command: str
    line: str  # the whole command, as it would be typed
    device: str
    run: str | None
    created: str
    state: State
    started: str | None
    ended: str | None
    code: int | None
    said: str | None
    done: int | None
    total: int | None
    seconds_left: float | None
    left_of: Literal["job", "step"] | None  # of the job where an earlier one of its command was timed


class Jobs(Answer):
    """What can be started here, and what was; newest first."""

    allowed: bool
    how: str  # the command that serves with jobs
    devices: list[str]
    recipes: list[str]
    forms: list[FormPart]
    jobs: list[JobPart]


class JobRequest(Part):
    """A filled form."""

    command: str = Field(max_length=60)
    run: str | None = Field(default=None, max_length=200)
    recipe: str | None = Field(default=None, max_length=200)
    name: str | None = Field(default=None, max_length=100)
    device: str = Field(default="cpu", max_length=20)
    values: dict[Name, Value | list[Value]] = Field(default_factory=dict, max_length=50)
    settings: Annotated[list[Annotated[str, Field(max_length=200)]], Field(max_length=50)] = Field(default_factory=list)


class CommandLine(Answer):
    """What a filled form is on the command line."""

    line: str


class JobAnswer(Answer):
    """One job."""

    job: JobPart


class JobLog(Answer):
    """What a job said behind a place, and the next place."""

    text: str
    after: int
    state: State
