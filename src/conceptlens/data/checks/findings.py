"""What is found wrong with data: raised at once when a model is to be trained, gathered when the data is checked."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from conceptlens.core.errors import UserError

Level = Literal["error", "warning", "info"]
EXAMPLES = 3  # how many cases a message names
MOST = 12  # errors that are told at once


@dataclass(frozen=True)
class Finding:
    """One thing to know about the data.

    An error stops training or spoils its result, a warning deserves a look, an info says what is done about it.
    """

    level: Level
    code: str  # stable, for programs: "missing-files"
    message: str  # for people
    count: int = 1
    examples: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "examples": list(self.examples)}


class Problems:
    """Receives findings while a source opens.

    Args:
        strict: Raise the first error as a `UserError` instead of keeping it.
    """

    def __init__(self, strict: bool = True) -> None:
        self.strict = strict
        self.findings: list[Finding] = []

    def add(self, level: Level, code: str, message: str, *, count: int = 1, examples: Iterable[str] = ()) -> None:
        finding = Finding(level, code, message, count, tuple(examples)[:EXAMPLES])
        if self.strict and level == "error":
            raise UserError(f"{message}{for_example(finding.examples)}")
        self.findings.append(finding)

    def take(self, other: "Problems") -> None:
        """Findings that were gathered elsewhere; a strict one raises all errors among them in one."""
        errors = [finding for finding in other.findings if finding.level == "error"]
        self.findings += other.findings
        if self.strict and errors:
            shown = [f"{each.message}{for_example(each.examples)}" for each in errors[:MOST]]
            more = (
                [f"… and {len(errors) - MOST} more; `conceptlens data check` lists them."] if len(errors) > MOST else []
            )
            raise UserError("\n".join([*shown, *more]))


def for_example(names: Sequence[str]) -> str:
    """The cases to look at, as the end of a message."""
    return f" For example: {', '.join(names)}." if names else ""


def numbered_rows(rows: Sequence[int]) -> str:
    """`row 3`, `rows 3, 7 and 9`, `rows 3, 7, … (25 in all)`."""
    if len(rows) == 1:
        return f"row {rows[0]}"
    shown = [str(row) for row in rows[:MOST]]
    if len(rows) > MOST:
        return f"rows {', '.join(shown)}, … ({len(rows):,} in all)"
    return f"rows {', '.join(shown[:-1])} and {shown[-1]}"


def counted(count: int, noun: str) -> str:
    """`1 image`, `1,200 images`, `2 classes`."""
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count:,} {noun}{ending}"
