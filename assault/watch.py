"""One attempt, watched: how a command or a request ended, and whether it ended at all."""

import contextlib
import io
import json
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from conceptlens.cli import main

LIMIT = 60  # seconds of the processor after which an attempt hangs,
WAIT = 600  # or of the clock: a machine that others share may give it little of the processor


class Hang(BaseException):
    """An attempt took too long."""


@dataclass
class Finding:
    """Something that should not be."""

    part: str
    number: int
    what: str
    kind: str  # traceback, hang, changed, lost, server error
    detail: str


@dataclass
class Part:
    """One part of the assault, as it went."""

    name: str
    attempts: int = 0
    refused: int = 0
    accepted: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)

    def found(self, number: int, what: str, kind: str, detail: str) -> None:
        self.findings.append(Finding(self.name, number, what, kind, detail[-2000:]))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@contextlib.contextmanager
def limited(seconds: float = LIMIT, wait: float = WAIT) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise Hang

    clocks = {signal.ITIMER_PROF: (signal.SIGPROF, seconds), signal.ITIMER_REAL: (signal.SIGALRM, wait)}
    before = {number: signal.signal(number, stop) for number, _ in clocks.values()}
    for clock, (_, most) in clocks.items():
        signal.setitimer(clock, most)
    try:
        yield
    finally:
        for clock in clocks:
            signal.setitimer(clock, 0)
        for number, earlier in before.items():
            signal.signal(number, earlier)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int  # -1: it hung
    out: str
    err: str

    @property
    def answer(self) -> Any:
        with contextlib.suppress(ValueError):
            return json.loads(self.out)
        return self.out


def command(*words: object) -> Ended:
    """A command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            with limited():
                code = main([str(word) for word in words])
        except Hang:
            code = -1
        except BaseException:
            code, _ = 1, err.write(traceback.format_exc())
    return Ended(code, out.getvalue(), err.getvalue())


def judge(part: Part, number: int, what: str, ended: Ended) -> bool:
    """Count an attempt; whether it was accepted."""
    part.attempts += 1
    if ended.code == -1:
        part.found(number, what, "hang", ended.err)
    elif ended.code not in (0, 2, 3) or "Traceback" in ended.err:
        part.found(number, what, "traceback", ended.err)
    part.accepted += ended.code == 0
    part.refused += ended.code == 2
    return ended.code == 0


def timed(run: Callable[[Part], None], name: str) -> Part:
    part, started = Part(name), time.perf_counter()
    run(part)
    part.seconds = round(time.perf_counter() - started, 1)
    return part


def tree_of(folder: Path) -> dict[str, bytes]:
    """What the files of a folder hold."""
    return {str(file.relative_to(folder)): content(file) for file in sorted(folder.rglob("*")) if file.is_file()}


def content(file: Path) -> bytes:
    """The bytes of a file; of safetensors with its header in order, as the format writes words in any order."""
    data = file.read_bytes()
    if file.suffix != ".safetensors":
        return data
    size = int.from_bytes(data[:8], "little")
    return json.dumps(json.loads(data[8 : 8 + size]), sort_keys=True).encode() + data[8 + size :]
