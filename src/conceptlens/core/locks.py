"""Locks that die with their process, however it dies; on POSIX systems by `flock`, on Windows by `msvcrt`."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

WAIT = 0.05  # seconds between two tries on Windows, which cannot wait for a lock without an end


@contextlib.contextmanager
def lock_file(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the only lock on a file, which is made; a link is not followed.

    Args:
        path: The file.
        wait: Wait for the process that holds it.

    Raises:
        BlockingIOError: Another process holds it, and `wait` is not set.
        OSError: The file cannot be made.
    """
    handle = os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0), 0o644)
    try:
        while not _acquire(handle, wait):
            if not wait:
                raise BlockingIOError(f"{path} is locked")
            time.sleep(WAIT)
        yield
    finally:
        os.close(handle)  # which releases the lock


def _acquire(handle: int, wait: bool) -> bool:
    try:
        import fcntl
    except ImportError:
        return _acquire_on_windows(handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _acquire_on_windows(handle: int) -> bool:
    """Lock the first byte; it need not exist."""
    import msvcrt

    try:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
    except OSError:
        return False
    return True


def is_running(pid: int) -> bool:
    """Whether there is such a process on this machine. `os.kill(pid, 0)` would interrupt it on Windows."""
    return bool(psutil.pid_exists(pid))
