"""Who may ask a hub: a new run for what its recipe names; a command on an existing run only with `--online`.

A run folder may come from a stranger, and its data may be named so that a command on it calls somewhere.
"""

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar

OFFLINE = "CONCEPTLENS_OFFLINE"  # set for a process that a page has started
_offline: ContextVar[bool] = ContextVar("offline", default=False)
_allowed: ContextVar[bool] = ContextVar("allowed", default=False)


@contextlib.contextmanager
def allow_online(allowed: bool = True) -> Iterator[None]:
    """The user's word that existing runs may have a hub asked: `--online`."""
    before = _allowed.set(allowed)
    try:
        yield
    finally:
        _allowed.reset(before)


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Work on an existing run: what is not on this machine is missing, unless the user allowed more."""
    before = _offline.set(True)
    try:
        yield
    finally:
        _offline.reset(before)


def is_offline() -> bool:
    return (_offline.get() or bool(os.environ.get(OFFLINE))) and not _allowed.get()
