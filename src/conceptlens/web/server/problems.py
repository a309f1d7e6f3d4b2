"""What a request can meet: a status, a code for programs, a sentence for people, a command that helps."""

from typing import Literal

Code = Literal[
    "bad-request",
    "token",
    "forbidden",
    "owner",
    "not-found",
    "missing",
    "broken",
    "taken",
    "closed",
    "too-large",
    "format",
    "slow",
    "busy",
    "bug",
]


class Problem(Exception):
    """An answer that is not the one that was asked for."""

    def __init__(self, status: int, code: Code, message: str, *, command: str | None = None, wait: int | None = None):
        """`wait`: after so many seconds it is worth asking again."""
        super().__init__(message)
        self.status, self.code, self.message, self.command, self.wait = status, code, message, command, wait


def bad(message: str) -> Problem:
    return Problem(400, "bad-request", message)


def not_found(message: str) -> Problem:
    return Problem(404, "not-found", message)


def missing(message: str, command: str | None = None) -> Problem:
    """The run has no such data, or not yet."""
    return Problem(409, "missing", message, command=command)
