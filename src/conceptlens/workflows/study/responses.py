"""Response files of raters: untrusted text, checked against the key before anything is counted."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from conceptlens.core.documents import Document, Part
from conceptlens.core.errors import UserError
from conceptlens.workflows.study.key import Key

FOLDER = "responses"  # of a pack: where a server puts them
LARGEST = 20_000_000  # bytes
RATER = r"^[a-z0-9_-]{1,40}$"  # the code of a rater
NOT_ANSWERS = ("run.json", "key.json", "analysis.json")  # files of a pack


class Answered(Part):
    """One answer."""

    answer: str = Field(max_length=400)
    ms: int = Field(ge=0, le=10**9)
    changes: int = Field(default=0, ge=0, le=10**6)


class Responses(Document):
    """The file that the page writes."""

    remedy = "Ask the rater for the file again, as the page saved it."

    study: str
    rater: str = Field(pattern=RATER)
    started: str = Field(default="", max_length=40)
    saved: str = Field(default="", max_length=40)
    complete: bool = False
    comment: str = Field(default="", max_length=2000)
    order: list[str] = Field(default_factory=list)
    answers: dict[str, Answered]


def response_files(given: Sequence[str | Path]) -> list[Path]:
    """Files as named, and all .json files of folders."""
    found: list[Path] = []
    for each in map(Path, given):
        if each.is_dir():
            inside = sorted(path for path in each.glob("*.json") if path.name not in NOT_ANSWERS)
            if not inside:
                raise UserError(f"{each}: no response file (.json) in this folder.")
            found += inside
        else:
            found.append(each)
    if not found:
        raise UserError("No response file was named. Raters save one at the end of the page.")
    return found


def read_responses(files: Sequence[Path], key: Key) -> list[Responses]:
    """The answers of each rater; whatever does not belong to the study is refused with the file's name."""
    trials = {trial.id: trial for trial in key.trials}
    found: dict[str, Path] = {}
    read: list[Responses] = []
    for path in files:
        if path.exists() and path.stat().st_size > LARGEST:
            raise UserError(f"{path}: more than {LARGEST:,} bytes; not a response file.")
        one = Responses.read(path)
        if one.study != key.study:
            raise UserError(
                f"{path}: answers to the study {one.study!r}, not to {key.study!r}. Are they of another pack?"
            )
        if one.rater in found:
            raise UserError(
                f"{path}: rater {one.rater!r} is also in {found[one.rater]}. Keep the later file of the two."
            )
        found[one.rater] = path
        for name, each in one.answers.items():
            trial = trials.get(name)
            if trial is None:
                raise UserError(f"{path}: answers a trial {name!r} that the key does not have.")
            allowed = trial.options if trial.kind == "choice" else [str(n) for n in range(1, 6)]
            if each.answer not in allowed:
                raise UserError(f"{path}: trial {name}: {each.answer!r} is not among its answers.")
        if not one.answers:
            raise UserError(f"{path}: no answer in it. {Responses.remedy}")
        read.append(one)
    return read
