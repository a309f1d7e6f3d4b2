"""The queue as a folder: each job is a folder of small files, and its state follows from which of them are there.

| file | written by | says |
| --- | --- | --- |
| `job.json` | the server that took it | the command, its words, the device |
| `started.json` | that process | which one it is |
| `log.txt`, `progress.json` | that process | what the command said, how far it is |
| `cancel` | a server | it shall end |
| `ended.json` | that process | the exit code |

So nothing is lost with a server: who looks at the folder later sees the same. The folder lies in the user's own state:
a queue inside a served folder would let whoever made that folder have commands run.
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import psutil

from conceptlens.core.errors import UserError
from conceptlens.core.files import write_json, write_text
from conceptlens.web.jobs.runner import STARTED, digest
from conceptlens.web.server.sessions import user_state

State = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
MOST = 100  # jobs that wait
KEPT = 500  # jobs that are listed


@dataclass(frozen=True)
class Job:
    """A command that was asked for."""

    id: str
    command: str
    words: tuple[str, ...]  # behind `conceptlens`
    device: str
    run: str | None  # the folder that it is about, as the user would write it
    created: str


@dataclass(frozen=True)
class JobStatus:
    """How a job is."""

    job: Job
    state: State
    started: str | None = None
    ended: str | None = None
    code: int | None = None
    line: str | None = None  # what it said last
    done: int | None = None  # of a step that counts
    total: int | None = None
    seconds_left: float | None = None
    left_of: Literal["job", "step"] | None = None  # what these seconds are of


def queue_folder(root: Path) -> Path:
    """Where the queue of a served folder lies."""
    return user_state() / "jobs" / hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:16]


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class JobStore:
    """The jobs in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(
        self, command: str, words: Sequence[str], device: str, run: str | None, *, unchanged: str | None = None
    ) -> Job:
        """Put a job at the end of the queue; one file may have to be as it is now when the job starts."""
        if sum(status.state == "queued" for status in self.all()) >= MOST:
            raise UserError(f"{MOST} jobs are waiting already. Cancel some, or wait.")
        self.folder.mkdir(parents=True, exist_ok=True)
        for number in range(len(self._names()) + 1, 10**6):
            name = f"{number:06d}"
            try:
                (self.folder / name).mkdir()
            except FileExistsError:
                continue  # another server took it
            job = Job(name, command, tuple(words), device, run, now())
            guard = {"path": unchanged, "sha256": digest(unchanged)} if unchanged else None
            write_json(self.folder / name / "job.json", {**asdict(job), "unchanged": guard})
            return job
        raise UserError(f"{self.folder}: full. Remove old jobs.")

    def all(self) -> list[JobStatus]:
        """Every job, oldest first."""
        return [status for name in self._names()[-KEPT:] if (status := self.get(name))]

    def get(self, name: str) -> JobStatus | None:
        """A job by its number; None if there is none, or it is not written yet."""
        folder = self.folder / name
        raw = _read(folder / "job.json")
        if not name.isdecimal() or not raw:
            return None
        job = Job(**{key: raw[key] for key in ("id", "command", "device", "run", "created")}, words=tuple(raw["words"]))
        started, ended = _read(folder / STARTED), _read(folder / "ended.json")
        cancelled = (folder / "cancel").exists()
        progress = _read(folder / "progress.json") or {}
        left: float | None = None
        left_of: Literal["job", "step"] = "step"
        state: State
        if ended:
            state = "cancelled" if cancelled else "done" if ended["code"] in (0, 3) else "failed"
        elif started:
            state = "running" if alive(started["pid"], started["made"]) else "cancelled" if cancelled else "interrupted"
        else:
            state = "cancelled" if cancelled else "queued"
        if state == "running" and progress:
            earlier = self._earlier(job)
            left = _left(progress, earlier) if earlier else None
            left_of = "step" if left is None else "job"
            left = _step_left(progress) if left is None else left
        return JobStatus(
            job,
            state,
            started["time"] if started else None,
            ended["time"] if ended else None,
            ended["code"] if ended else None,
            progress.get("line"),
            progress.get("done"),
            progress.get("total"),
            left,
            left_of if left is not None else None,
        )

    def start(self, name: str, pid: int, made: float | None = None) -> None:
        """Note the process that runs a job; the process itself does so as well."""
        made = psutil.Process(pid).create_time() if made is None else made
        write_json(self.folder / name / STARTED, {"pid": pid, "made": made, "time": now()})

    def cancel(self, name: str) -> None:
        """Ask a job to end; its process ends its command, which saves what it can."""
        write_text(self.folder / name / "cancel", now())
        started = _read(self.folder / name / STARTED)
        if started and alive(started["pid"], started["made"]):
            psutil.Process(started["pid"]).terminate()

    def log(self, name: str, after: int, most: int = 200_000) -> tuple[str, int]:
        """What a job said behind a place in its log, and the place behind that; from 0 the end of a long one."""
        path = self.folder / name / "log.txt"
        if not path.exists():
            return "", 0
        with path.open("rb") as file:
            size = file.seek(0, 2)
            start = max(0, size - most) if after <= 0 or after > size else after
            file.seek(start)
            block = file.read(most)
        return block.decode("utf-8", "replace"), start + len(block)

    def _earlier(self, job: Job) -> dict[str, Any] | None:
        """The course of an earlier job of the same command that ended well: the most alike, of several the last."""
        found: list[tuple[int, str]] = []
        for name in self._names()[-KEPT:]:
            raw = _read(self.folder / name / "job.json") if name < job.id else None
            if raw is None or raw["command"] != job.command or (self.folder / name / "cancel").exists():
                continue
            if (_read(self.folder / name / "ended.json") or {}).get("code") in (0, 3):
                found.append((len({*raw["words"]} & {*job.words}), name))
        return _read(self.folder / max(found)[1] / "progress.json") if found else None

    def _names(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if path.name.isdecimal())


def alive(pid: int, made: float) -> bool:
    """Whether this very process still runs: a number may be another's by now."""
    try:
        process = psutil.Process(pid)
        return bool(abs(process.create_time() - made) < 2 and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _left(progress: Mapping[str, Any], earlier: Mapping[str, Any]) -> float | None:
    """Seconds left of the job: of its step as fast as that is, and as many as the earlier job took after that step."""
    marks, known, took = progress.get("marks"), earlier.get("marks"), earlier.get("took")
    if not isinstance(marks, dict) or not known or not took:
        return None
    now = time.time()
    shared = [name for name in marks if name in known]
    if not shared:  # it has only begun
        return float(max(0.0, took - (now - progress["begun"])))
    step = max(shared, key=lambda name: (marks[name][1], marks[name][0]))
    own = _step_left(progress) if step == progress["step"] else None
    if own is None:
        own = known[step][1] - known[step][0] - (now - progress["begun"] - marks[step][0])
    return float(max(0.0, own + took - known[step][1]))


def _step_left(progress: Mapping[str, Any]) -> float | None:
    """Seconds left of the step, from how fast it was so far."""
    done, total, first = (progress.get(key) for key in ("done", "total", "first"))
    if not (done and total and first is not None) or done <= first:
        return None
    each = (progress["at"] - progress["since"]) / (done - first)
    return float(max(0.0, each * (total - done) - (time.time() - progress["at"])))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
