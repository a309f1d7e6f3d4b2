"""Errors for the reader: what was expected, what came, what to do next."""

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Something the user can mend. The command line prints it without a traceback and exits with code 2."""


def did_you_mean(name: str, options: Iterable[str], *, listing: int = 12) -> str:
    """The closest match for a misspelled name, or the list of what exists."""
    known = [str(option) for option in options]
    folded = {option.lower().replace("_", "-"): option for option in known}
    close = get_close_matches(str(name).lower().replace("_", "-"), list(folded), n=1, cutoff=0.6)
    if close:
        return f"Did you mean {folded[close[0]]!r}?"
    shown = ", ".join(repr(option) for option in sorted(known)[:listing])
    more = f" and {len(known) - listing} more" if len(known) > listing else ""
    return f"Available: {shown}{more}." if known else "None exist here."


def unknown_name(kind: str, name: str, options: Iterable[str]) -> UserError:
    """An error for a name that is not in a registry, a file or a table."""
    return UserError(f"Unknown {kind} {name!r}. {did_you_mean(name, options)}")


UNREADABLE = (FileNotFoundError, IsADirectoryError, PermissionError)


def unreadable(error: OSError, name: object, what: str) -> UserError:
    """An error for a file that cannot be opened: one of `UNREADABLE`.

    Args:
        error: What the system said.
        name: The file.
        what: What it should be, as "an image".
    """
    if isinstance(error, FileNotFoundError):
        return UserError(f"{name}: no such file.")
    if isinstance(error, IsADirectoryError):
        return UserError(f"{name}: expected {what}, found a folder.")
    return UserError(f"{name}: not allowed to read this file; check its permissions.")
