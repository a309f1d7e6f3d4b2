"""Errors for the reader: what was expected, what came, what to do next."""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from tokenize import TokenError

# Words that people use for the same thing: what they type → what it is called here.
SYNONYMS = {
    "lr": ("learning-rate",),
    "rate": ("learning-rate",),
    "batch": ("batch-size",),
    "bs": ("batch-size",),
    "wd": ("weight-decay",),
    "decay": ("weight-decay",),
    "iterations": ("epochs",),
    "steps": ("epochs",),
    "num-workers": ("workers",),
    "loaders": ("workers",),
    "amp": ("precision",),
    "dtype": ("precision",),
    "gpu": ("device",),
    "cuda": ("device",),
    "cpu": ("device",),
    "model": ("method", "encoder"),
    "architecture": ("method", "encoder"),
    "arch": ("encoder",),
    "backbone": ("encoder",),
    "dataset": ("data",),
    "images": ("data", "n"),
    "target": ("class-column",),
    "label-column": ("class-column",),
    "resolution": ("image-size",),
    "size": ("image-size",),
    "random-seed": ("seed",),
    "random-state": ("seed",),
    "output": ("out",),
    "outdir": ("out",),
    "output-dir": ("out",),
    "save": ("out",),
    "force": ("overwrite",),
    "again": ("overwrite",),
    "silent": ("quiet",),
    "count": ("n",),
    "limit": ("n",),
    "num-samples": ("n",),
    "bootstrap": ("resamples",),
    "fit": ("train",),
    "run": ("train",),
    "eval": ("evaluate",),
    "test": ("evaluate",),
    "validate": ("evaluate",),
    "infer": ("predict",),
    "classify": ("predict",),
    "heatmap": ("explain",),
    "saliency": ("explain",),
    "intervene": ("interventions", "what-if"),
    "counterfactual": ("what-if",),
    "web": ("serve",),
    "gui": ("serve",),
    "ui": ("serve",),
    "config": ("recipe",),
    "cost": ("estimate",),
    "dry-run": ("estimate",),
    "methods": ("list",),
    "ls": ("list",),
    "gig": ("decompose",),
    "cortex": ("codebook-demo",),
}


class UserError(Exception):
    """An error that the user can fix. The command line prints it without a traceback and exits with code 2.

    >>> import conceptlens as cl
    >>> try:
    ...     cl.load("no such run")
    ... except cl.UserError as error:
    ...     print("refused")
    refused
    """


class DamagedError(UserError):
    """A file is not as it was written. What works without a file that is missing does not work without this one."""


def _fold(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.lower()).strip("-")


def _last(name: str) -> str:
    """`epochs` of `--training.epochs`, `check` of `data check`, `cbm` of `blood-cells/cbm`."""
    return _fold(re.split(r"[.\s/]", name)[-1])


def closest(name: str, options: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The option whose letters are most like the name's; the same letters in another order come first."""
    word = _fold(name)
    scored = [
        (sorted(_fold(option)) == sorted(word), SequenceMatcher(None, _fold(option), word).ratio(), option)
        for option in options
    ]
    return max((entry for entry in scored if entry[1] >= cutoff), default=(False, 0.0, None))[2]


def suggestions(name: str, options: Iterable[str]) -> list[str]:
    """What a name may have been meant for: by its last part (`epochs`), by meaning (`lr`), or by its letters."""
    known = [str(option) for option in options]
    word = _fold(name)
    same = [option for option in known if word in (_fold(option), _last(option))]
    if same:
        return same[:3]
    meant = [
        option for target in SYNONYMS.get(word, ()) for option in known if target in (_fold(option), _last(option))
    ]
    if meant:
        return meant[:2]
    match = closest(name, known)
    if match is None and re.fullmatch(r"[\w-]+", word):  # one word, and so perhaps a slip in the last part of a name
        lasts = {_last(option): option for option in reversed(known)}
        match = lasts.get(closest(name, lasts) or "")
    return [match] if match is not None else []


def did_you_mean(name: str, options: Iterable[str], *, listing: int = 12) -> str:
    """What a name may have been meant for, or the list of what exists."""
    known = [str(option) for option in options]
    if meant := suggestions(str(name), known):
        return f"Did you mean {' or '.join(map(repr, meant))}?"
    shown = ", ".join(repr(option) for option in sorted(known)[:listing])
    more = f" and {len(known) - listing} more" if len(known) > listing else ""
    return f"Available: {shown}{more}." if known else "None exist here."


def unknown_name(kind: str, name: str, options: Iterable[str]) -> UserError:
    """An error for a name that is not in a registry, a file or a table."""
    return UserError(f"Unknown {kind} {name!r}. {did_you_mean(name, options)}")


UNREADABLE = (FileNotFoundError, IsADirectoryError, PermissionError)
# What numpy raises for a damaged file of arrays: its header is a piece of Python, read by Python's own parser.
DAMAGED_ARRAY = (
    *(ValueError, TypeError, AttributeError, KeyError, EOFError, OSError, MemoryError),
    *(RecursionError, SyntaxError, TokenError),
)


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
