"""Locks on a shared folder: one owner, released at the end, taken over from the dead only."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conceptlens.workflows.compare.lock import hold, is_held


def foreign(path: Path, *, age: float) -> None:
    """A lock of another machine."""
    path.write_text(json.dumps({"host": "elsewhere", "pid": 1, "token": "x"}), "utf-8")
    os.utime(path, (time.time() - age, time.time() - age))


def test_one_holds_it_and_the_next_may_when_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "job.lock"
    with hold(path) as first:
        assert first
        assert is_held(path)
        with hold(path) as second:
            assert not second
        assert is_held(path)
    assert not path.exists()
    with pytest.raises(ValueError, match="x"), hold(path):
        raise ValueError("x")
    assert not path.exists()


def test_another_machine_keeps_it_while_it_is_young(tmp_path: Path) -> None:
    path = tmp_path / "job.lock"
    foreign(path, age=300)
    assert is_held(path)
    with hold(path) as held:
        assert not held
    foreign(path, age=700)
    assert not is_held(path)
    with hold(path) as held:
        assert held
    assert not list(tmp_path.iterdir())


def test_of_many_who_take_an_old_lock_one_has_it_at_a_time(tmp_path: Path) -> None:
    path, guard = tmp_path / "job.lock", threading.Lock()
    for _ in range(20):
        foreign(path, age=700)
        inside, most, got = 0, 0, 0

        def attempt(_: int) -> None:
            nonlocal inside, most, got
            with hold(path) as held:
                if held:
                    with guard:
                        inside, got = inside + 1, got + 1
                        most = max(most, inside)
                    time.sleep(0.005)
                    with guard:
                        inside -= 1

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(attempt, range(8)))
        assert most == 1
        assert got >= 1
        assert not list(tmp_path.iterdir())


def test_a_process_that_died_here_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "job.lock"
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    path.write_text(json.dumps({"host": socket.gethostname(), "pid": child.pid}), "utf-8")
    assert not is_held(path)
    with hold(path) as held:
        assert held


def test_the_owner_keeps_it_young(tmp_path: Path) -> None:
    path = tmp_path / "job.lock"
    with hold(path, beat=0.01):
        os.utime(path, (0, 0))
        deadline = time.monotonic() + 5
        while path.stat().st_mtime == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert path.stat().st_mtime > 0
