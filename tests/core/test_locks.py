"""Locks on every system: held once, released by the end of their block; Windows by a stand-in for its module."""

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from conceptlens.core.locks import is_running, lock_file


class Msvcrt(types.ModuleType):
    """Windows' module: one holder of a file's first byte, until its handle is closed."""

    LK_NBLCK = 2

    def __init__(self) -> None:
        super().__init__("msvcrt")
        self.held: dict[int, int] = {}  # file → handle

    def locking(self, handle: int, mode: int, size: int) -> None:
        assert (mode, size) == (self.LK_NBLCK, 1)
        file = os.fstat(handle).st_ino
        if (holder := self.held.get(file)) not in (None, handle) and _is_open(int(holder or 0)):
            raise OSError(36, "locked")
        self.held[file] = handle


def _is_open(handle: int) -> bool:
    try:
        os.fstat(handle)
    except OSError:
        return False
    return True


@pytest.fixture(params=["posix", "windows"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "windows":
        monkeypatch.setitem(sys.modules, "fcntl", None)
        monkeypatch.setitem(sys.modules, "msvcrt", Msvcrt())
    elif os.name == "nt":
        pytest.skip("a POSIX system")
    return str(request.param)


def test_a_lock_is_held_once_and_ends_with_its_block(system: str, tmp_path: Path) -> None:
    with lock_file(tmp_path / "lock"):
        with pytest.raises(BlockingIOError), lock_file(tmp_path / "lock"):
            pass
        with lock_file(tmp_path / "other"):
            pass
    with lock_file(tmp_path / "lock"):
        pass


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="no such flag")
def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError), lock_file(tmp_path / "lock"):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_process_that_ended_is_not_running() -> None:
    assert is_running(os.getpid())
    ended = subprocess.Popen([sys.executable, "-S", "-c", ""])
    ended.wait()
    assert not is_running(ended.pid)
