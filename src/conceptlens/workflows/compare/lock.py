"""One machine a job: a file that only one can create, renewed by its owner, on any shared folder.

`flock` does not reach across every network file system, so the lock is the file itself. A thread touches it while the
job runs; one that has not been touched for ten minutes belongs to a machine that died, and may be taken. Ages are read
from the file system's own clock (a file that was just written), so the machines' clocks need not agree.
"""

import contextlib
import json
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

from conceptlens.core.locks import is_running

BEAT = 30.0  # seconds between touches
STALE = 600.0  # seconds after which a lock that was not renewed is abandoned


@contextlib.contextmanager
def hold(path: Path, *, beat: float = BEAT, stale: float = STALE) -> Iterator[bool]:
    """Try to hold a lock; yields whether it is held. Never waits."""
    mark = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "token": uuid.uuid4().hex})
    path.parent.mkdir(parents=True, exist_ok=True)
    if not _create(path, mark) and not (_release(path, mark, stale) and _create(path, mark)):
        yield False
        return
    ended = threading.Event()

    def keep_young() -> None:
        while not ended.wait(beat):
            with contextlib.suppress(OSError):  # a file system that fails for a moment: the next renewal will do
                os.utime(path)

    thread = threading.Thread(target=keep_young, daemon=True)
    thread.start()
    try:
        yield True
    finally:
        ended.set()
        thread.join()
        if _read(path) == mark:
            path.unlink(missing_ok=True)


def is_held(path: Path, *, stale: float = STALE) -> bool:
    """Whether some process holds this lock."""
    return path.exists() and not _abandoned(path, stale)


def _create(path: Path, mark: str) -> bool:
    try:
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        return False
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(mark)
    return True


def _release(path: Path, mark: str, stale: float) -> bool:
    """Remove an abandoned lock, under a lock of its own: a slow remover must not remove the next owner's."""
    if not _abandoned(path, stale):
        return False
    removing = path.with_name(f"{path.name}.removing")
    if not _create(removing, mark):
        if _abandoned(removing, stale):
            removing.unlink(missing_ok=True)
        return False
    try:
        if _abandoned(path, stale):
            path.unlink(missing_ok=True)
    finally:
        removing.unlink(missing_ok=True)
    return True


def _abandoned(path: Path, stale: float) -> bool:
    """Its process ran on this machine and is gone, or nobody has touched it for long."""
    try:
        owner = json.loads(_read(path) or "{}")
        touched = path.stat().st_mtime
        owner = owner if isinstance(owner, dict) else {}
    except (OSError, ValueError):
        return False
    here = owner.get("host") == socket.gethostname() and isinstance(owner.get("pid"), int)
    if here and not is_running(owner["pid"]):
        return True
    probe = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        probe.touch()
        return probe.stat().st_mtime - touched > stale
    finally:
        probe.unlink(missing_ok=True)


def _read(path: Path) -> str | None:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
