"""The process of one job: `python -m conceptlens.web.jobs.runner FOLDER`. It runs the command, keeps its log, notes how
far it is, and writes the exit code. It outlives the server that started it, and imports nothing that is slow.

Why it is no engine of `core/engines`: an engine runs tasks of one command, which waits for them, in worker processes
that end with it; its tasks may name any function, since the caller wrote them. A job has no caller that waits. It has a
log, its progress, a cancellation and a state that another server reads later, and its words are those of a form, so
that nobody who made a served folder can have something else run. What the two share, starting a process, is one line of
the library.
"""

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import psutil

from conceptlens.core.engines.environment import python
from conceptlens.core.locks import lock_file
from conceptlens.core.network import OFFLINE

PATIENCE = 30.0  # seconds that a command has to save its state before it is killed
LONGEST = 50_000_000  # bytes of a log
STARTED = "started.json"
NO_CODE = "CONCEPTLENS_NO_CODE"
MARKS = 200  # steps that are kept
_STEP = re.compile(r"(\d+)\s*(?:of|/)\s*(\d+)")


class Progress:
    """How far a command is, from lines such as `epoch 3/10` or `permutation 30 of 99`.

    `marks` has the seconds from the start to the first and to the last line of each step. From them and from `took`,
    the seconds of the whole job, a later job of the same command tells how long it will take.
    """

    def __init__(self, begun: float = 0.0) -> None:
        self.value: dict[str, Any] = {"begun": begun, "marks": {}}
        self._key: tuple[str, int] | None = None

    def read(self, line: str, at: float) -> bool:
        """Take a line in; returns whether there is something new to tell."""
        line = line.strip()
        if not line:
            return False
        step = _STEP.search(line)
        name = line[: step.start()] if step else line[:100]
        marks, since = self.value["marks"], at - self.value["begun"]
        if name in marks or len(marks) < MARKS:
            marks[name] = (marks.get(name, (since,))[0], since)
        self.value = {**self.value, "line": line[-300:], "at": at, "step": name}
        if step and int(step[2]) > 0 and int(step[1]) <= int(step[2]):
            done, total = int(step[1]), int(step[2])
            key = (re.sub(r"[\d.]+", "", name), total)
            if key != self._key or done < self.value.get("done", 0):
                self._key = key
                self.value |= {"since": at, "first": done}
            self.value |= {"done": done, "total": total}
        return True


def run_job(folder: Path) -> int:
    """Run the command of a job, once, whoever starts it; returns its exit code.

    A server that was killed as it started a job may have left the job running: the next server starts it again, and
    that process ends here.
    """
    with contextlib.suppress(BlockingIOError), lock_file(folder / ".lock"):
        if not any((folder / name).exists() for name in (STARTED, "ended.json")):
            return _run(folder)
    return 0


def _run(folder: Path) -> int:
    _write(folder / STARTED, {"pid": os.getpid(), "made": psutil.Process().create_time(), "time": _now()})
    job = json.loads((folder / "job.json").read_text("utf-8"))
    guard = job.get("unchanged")
    if guard and digest(guard["path"]) != guard["sha256"]:  # it was checked when the job was queued
        said = f"error: {guard['path']}: changed since the job was queued; start it again.\n"
        (folder / "log.txt").write_text(said, "utf-8")
        return _end(folder, 2)
    words = [*python(), "-u", "-m", "conceptlens", *job["words"], "--device", job["device"]]
    # What a form names is never code, and a recipe may change after it was looked at: `core.plugins` trusts none.
    # Nor is it an address that is asked: data of a served run may be named by one.
    environment = {**os.environ, NO_CODE: "1", OFFLINE: "1"}
    child = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    )

    def end(number: int, frame: FrameType | None) -> None:
        child.terminate()
        killer = threading.Timer(PATIENCE, child.kill)
        killer.daemon = True
        killer.start()

    signal.signal(signal.SIGTERM, end)
    if (folder / "cancel").exists():
        child.terminate()
    progress, told, written = Progress(time.time()), 0.0, 0
    _write(folder / "progress.json", progress.value)
    assert child.stdout is not None
    with (folder / "log.txt").open("ab", buffering=0) as log:
        for piece in iter(lambda: os.read(child.stdout.fileno(), 65536), b""):  # type: ignore[union-attr]
            if written < LONGEST:
                written += log.write(piece) or 0
            lines = re.split(r"[\r\n]+", piece.decode("utf-8", "replace"))
            new = [progress.read(line, time.time()) for line in lines]
            if any(new) and time.time() - told > 0.2:
                told = time.time()
                _write(folder / "progress.json", progress.value)
    code = child.wait()
    _write(folder / "progress.json", {**progress.value, "took": time.time() - progress.value["begun"]})
    return _end(folder, code)


def digest(path: str) -> str | None:
    """SHA-256 of a file; None if it is gone."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return None


def _end(folder: Path, code: int) -> int:
    _write(folder / "ended.json", {"code": code, "time": _now()})
    return code


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _write(path: Path, value: object) -> None:
    """Whole or not at all."""
    aside = path.with_name(f".{path.name}.tmp")
    aside.write_text(json.dumps(value), "utf-8")
    os.replace(aside, path)


if __name__ == "__main__":
    sys.exit(run_job(Path(sys.argv[1])))
