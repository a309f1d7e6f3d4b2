"""Errors of the system in words that a user can act on."""

import contextlib
import errno
import os
import re
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

from conceptlens.core import manifest
from conceptlens.core.errors import UserError

# What code raises that meets a value it did not write: of another type, missing, too long, not a number.
MALFORMED = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, AssertionError),
    *(struct.error, zlib.error),
)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_PLACE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP, errno.EFBIG)
_DEVICE = (errno.EIO, errno.EMFILE, errno.ENFILE, errno.ESTALE)


def _system_error(error: BaseException) -> tuple[int | None, str]:
    """The system's number for an error and where it happened; safetensors passes the number on as text."""
    if isinstance(error, OSError):
        return error.errno, str(error.filename or "while reading or writing")
    number = re.search(r"\(os error (\d+)\)", str(error)) if type(error).__name__ == "SafetensorError" else None
    return (int(number[1]) if number else None), "while reading or writing weights"


def not_as_written(error: BaseException) -> str:
    """One of `MALFORMED` in words, where it was met in a folder that may hold anything."""
    return f"A file of this folder is not what conceptlens writes ({type(error).__name__}: {str(error)[:200]})."


def unfit(error: BaseException, words: Iterable[str]) -> str | None:
    """Of an error of a command: a folder among its words that is not as it was written; None if there is none.

    What was checked when a file was read says more. This is for values that nobody thought of.
    """
    for folder in {Path(word) for word in words} if isinstance(error, MALFORMED) else ():
        with contextlib.suppress(UserError, OSError, ValueError):
            if (folder / "run.json").is_file() and (changed := manifest.changes(folder, always=True)):
                names = ", ".join([*changed.changed, *changed.removed][:3]) or "they have no manifest"
                return (
                    f"{folder}: {not_as_written(error)} Its files are not known to be as they were written ({names}): "
                    "copy the folder again. `--debug` shows where it was noticed."
                )
    return None


def reason(error: BaseException) -> str | None:
    """What a user can do about an error; None for a bug of ours."""
    if isinstance(error, UserError):
        return str(error)
    number, place = _system_error(error)
    if number in _FULL:
        return f"The disk is full ({place}). Free some space; `conceptlens resume RUN` goes on with a run."
    if number in _FORBIDDEN:
        return f"{place}: {os.strerror(number)}. Choose a place you may write to, or change its permissions."
    if number in (*_PLACE, *_DEVICE):
        return f"{place}: {os.strerror(number)}."
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        around = error.object[max(error.start - 40, 0) : error.end + 20].encode("utf-8", "replace").decode("utf-8")
        return f"A name is not UTF-8, near {around!r}. Rename the file or folder."
    out_of_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    if out_of_memory or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error)):
        return "Out of memory. Try a smaller training.batch_size or encoder.image_size, or training.accumulate above 1."
    if isinstance(error, RuntimeError) and "operator torchvision::" in str(error):
        return (
            "torch and torchvision are of different builds, as when torch is the CPU's and torchvision PyPI's. "
            "Install both again with one command: pip install --force-reinstall torch torchvision, from the same index."
        )
    return None
