"""Kills at random moments: what goes on afterwards gives the same bits as what was never stopped."""

import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assault.watch import Part, command, tree_of
from assault.world import World
from conceptlens.cli import main
from tests.cortex.tiny import save_small_generator

LIMIT = 900  # seconds of one command
with socket.create_server(("127.0.0.1", 0)) as free:  # the usual one may be that of a server that someone uses
    PORT: int = free.getsockname()[1]


VICTIMS = ("train", "encode", "compare", "decompose", "codebook", "study")


@dataclass(frozen=True)
class Victim:
    """A command that is killed: what starts it, what goes on with it, and what must be the same in the end."""

    name: str
    begin: Callable[[Path], list[object]]
    again: Callable[[Path], list[object]]
    same: Callable[[str], bool]


def _weights_and_numbers(name: str) -> bool:
    kept = ("model/", "metrics.json", "predictions/", "stories.json", "splits.json", "concepts.yaml", "distribution")
    return name.startswith(kept) or any(f"/{part}" in name for part in kept)


def victims(world: World) -> list[Victim]:
    data, root = world.data, world.root
    small = ["--training.epochs", "4", "--training.checkpoint_every", "1", "--quiet"]
    store = ["--encoder.train", "none", "--regularizer", "none", "--quiet"]
    generator = save_small_generator(root / "generator", "round", "square", side=16)
    network = root / "network.py"
    network.write_text(NETWORK)
    compare = root / "compare.yaml"
    compare.write_text(COMPARE.format(recipe=data.recipe, table=data.table, concepts=data.concepts))

    def decompose(out: Path) -> list[object]:
        some = ["--n", "12", "--per-image", "2", "--layers", "one", "--layers", "two", "--examples", "2"]
        return ["decompose", f"{network}:build", data.images, *some, "--validate-on", "0", "--out", out, "--quiet"]

    def extract(out: Path) -> list[object]:
        few = ["--samples-per-concept", "96", "--epochs", "12", "--batch-size", "8", "--filters", "8", "--hidden", "16"]
        return ["codebook", "extract", generator, *few, "--out", out, "--quiet"]

    def extract_again(out: Path) -> list[object]:
        begun = (out / "run.json").exists() and json.loads((out / "run.json").read_text())["status"] != "done"
        return extract(out) if begun else [*extract(out), "--overwrite"]

    def study(out: Path) -> list[object]:
        return ["study", "make", world.run, "--n", "10", "--split", "train", "--out", out]

    def train(out: Path) -> list[object]:
        return ["train", data.recipe, *small, "--out", out]

    def resume(out: Path) -> list[object]:
        return ["resume", out, "--quiet"] if (out / "run.json").exists() else [*train(out), "--overwrite"]

    def extracted(name: str) -> bool:
        return name.startswith(("extractor/", "samples/")) or name == "metrics.json"

    return [
        Victim("train", train, resume, _weights_and_numbers),
        Victim(
            "encode",
            lambda out: ["encode", data.recipe, "--encoder.store", out, *store],
            lambda out: ["encode", data.recipe, "--encoder.store", out, *store],
            lambda name: name.endswith((".npy", "store.json")),
        ),
        Victim(
            "compare",
            lambda out: ["compare", compare, "--out", out, "--quiet"],
            lambda out: ["compare", compare, "--out", out, "--quiet"],
            _weights_and_numbers,
        ),
        Victim(
            "decompose",
            decompose,
            lambda out: decompose(out) if (out / "settings.json").exists() else [*decompose(out), "--overwrite"],
            lambda name: name.endswith((".safetensors", "graph.json", ".svg")),
        ),
        Victim("codebook", extract, extract_again, extracted),
        Victim("study", study, study, lambda name: name.endswith(("key.json", "study.html"))),
    ]


NETWORK = '''"""A network that nobody trained: always the same weights."""

from collections import OrderedDict

import torch
from torch import nn


def build() -> nn.Module:
    torch.manual_seed(0)
    layers = OrderedDict(
        one=nn.Sequential(nn.Conv2d(3, 6, 3, 2), nn.ReLU()),
        two=nn.Sequential(nn.Conv2d(6, 8, 3, 2), nn.ReLU()),
        pool=nn.AdaptiveAvgPool2d(1),
        flat=nn.Flatten(),
        head=nn.Linear(8, 2),
    )
    return nn.Sequential(layers)
'''

COMPARE = """
schema: 1
name: Two methods
base: "{recipe}"
recipes:
  cbm: {{set: {{method: cbm}}}}
  black box: {{set: {{method: black-box}}}}
data:
  own: {{source: "{table}", class_column: diagnosis, concepts: "{concepts}"}}
seeds: [0]
"""


class Forked:
    """A command in a process of its own that need not import anything again: most of a small run would be that."""

    def __init__(self, words: list[object]) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the command is looked at
        self.code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.dup2(self._said.fileno(), 1)
                os.dup2(self._said.fileno(), 2)
                code = main([str(word) for word in words])
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(code)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended by then."""
        ends = time.monotonic() + seconds
        while self.code is None and time.monotonic() < ends:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            else:
                time.sleep(0.01)
        return self.code is not None

    @property
    def said(self) -> str:
        self._said.seek(0)
        return self._said.read().decode("utf-8", "replace")


def import_all(words: list[object]) -> None:
    """Import here what a command imports, as a process that it is tried in reports."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "modules")
        code = "import json, sys; from conceptlens.cli import main; main(sys.argv[2:]); "
        code += "json.dump(list(sys.modules), open(sys.argv[1], 'w'))"
        subprocess.run([sys.executable, "-c", code, file, *map(str, words)], check=False, capture_output=True)
        for name in json.loads(file.read_text()) if file.exists() else []:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def assault_kills(name: str, part: Part, world: World, seed: int, number: int) -> None:
    """A command to its end once, then killed at random moments of that time until so many kills came in time."""
    for victim in victims(world):
        if victim.name != name:
            continue
        whole = world.root / "whole"
        shutil.rmtree(whole, ignore_errors=True)
        import_all(victim.begin(whole))
        shutil.rmtree(whole, ignore_errors=True)
        started = time.perf_counter()
        process = Forked(victim.begin(whole))
        process.wait(LIMIT)
        seconds = time.perf_counter() - started
        if process.code != 0:
            part.found(-1, victim.name, "traceback", process.said)
            continue
        wanted = {name: data for name, data in tree_of(whole).items() if victim.same(name)}
        told: dict[str, Any] = {"seconds": round(seconds, 1), "files": len(wanted), "kills": 0, "equal": 0, "rows": []}
        part.more[victim.name] = told
        for each in range(3 * number):  # one that ended before its moment is no kill
            if told["kills"] >= number:
                break
            _kill_and_go_on(part, world, victim, wanted, seconds, random.Random(f"{victim.name} {seed} {each}"), each)


def _kill_and_go_on(
    part: Part, world: World, victim: Victim, wanted: dict[str, bytes], seconds: float, draw: random.Random, each: int
) -> None:
    out = world.root / "whole"  # the same place: paths are part of some files
    shutil.rmtree(out, ignore_errors=True)
    words, told, kills = victim.begin(out), part.more[victim.name], []
    for _ in range(draw.choice((1, 2, 3))):
        moment, kind = draw.uniform(0.2, 1.0) * seconds, draw.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
        process = Forked(words)
        if not process.wait(moment):
            os.kill(process.pid, kind)
            process.wait(LIMIT)
            kills.append({"after": round(moment, 2), "signal": kind.name, "there": _count(out)})
        words = victim.again(out)
    process = Forked(words)
    process.wait(LIMIT)
    part.attempts += 1
    what = f"{victim.name} killed {', '.join('after {after} s by {signal}'.format(**kill) for kill in kills)}"
    found = {name: data for name, data in tree_of(out).items() if victim.same(name)}
    differ = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    told["kills"] += len(kills)
    told["rows"].append({"number": each, "kills": kills, "code": process.code, "differ": differ})
    if process.code != 0:
        part.found(each, what, "traceback" if process.code == 1 else "lost", process.said)
        return
    if differ:
        part.found(each, what, "changed", ", ".join(differ))
    else:
        part.accepted += 1
        told["equal"] += len(kills)
    if left := [name for name in found if "/." in f"/{name}" and name.endswith((".tmp", ".old"))]:
        part.found(each, what, "lost", f"left behind: {left}")


def _count(folder: Path) -> int:
    """How many files a killed command had written."""
    return sum(path.is_file() for path in folder.rglob("*")) if folder.exists() else 0


def assault_serve(part: Part, world: World, seed: int, number: int) -> None:
    """A server that is killed while labels are corrected, jobs wait and a rater answers: all that it confirmed is there
    when it starts again, the queue goes on, and every job ends once."""
    home = world.root / "served"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(world.run, home / "run")
    made = command("study", "make", home / "run", "--n", "10", "--split", "train", "--out", home / "study")
    if made.code:
        part.found(-1, "study make", "traceback", made.err)
        return
    trials = [trial["id"] for trial in json.loads((home / "study" / "key.json").read_text("utf-8"))["trials"]]
    shutil.rmtree(world.root / "state", ignore_errors=True)
    os.environ["XDG_STATE_HOME"] = str(world.root / "state")  # the queue is a new one
    confirmed = Confirmed()
    rows = part.more.setdefault("rows", [])
    for each in range(number + 1):  # the last start is not killed: it ends the jobs
        draw = random.Random(f"serve {seed} {each}")
        process = Forked(["serve", home, "--port", str(PORT), "--threads", "1", "--allow-jobs"])
        try:
            if lost := confirmed.lost():
                part.found(each, "serve, started again", "lost", lost)
            part.attempts += 1
            if each == number:
                confirmed.wait_for_jobs()
            else:
                confirmed.job()
                ends = time.monotonic() + draw.uniform(0.1, 4)
                while time.monotonic() < ends:
                    confirmed.correct(draw)
                    confirmed.answer(draw.choice(trials), draw.choice("12345"))
            part.accepted += 1
        except (OSError, ValueError, KeyError) as error:
            part.found(each, "serve", "server error", f"{error!r} {process.said[-500:]}")
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait(LIMIT)
        states = [job["state"] for job in confirmed.jobs_there]
        counts = {"corrections": confirmed.corrections, "answers": len(confirmed.answers), "jobs": len(confirmed.jobs)}
        rows.append({"start": each, **counts, "states of jobs": states})
    if states != ["done"] * len(confirmed.jobs):
        part.found(number, "serve: jobs", "lost", f"{len(confirmed.jobs)} were taken; {states}")


@dataclass
class Confirmed:
    """What a server said that it keeps."""

    corrections: int = 0
    jobs: list[str] = field(default_factory=list)
    answers: dict[str, dict[str, object]] = field(default_factory=dict)
    jobs_there: list[dict[str, Any]] = field(default_factory=list)
    _word: str = ""

    def correct(self, draw: random.Random) -> None:
        image = {"split": "test", "row": draw.randrange(4)}
        edits = [f"border={draw.choice(('regular', 'irregular'))}"]
        body = {"rater": f"rater {draw.randrange(99)}", "image": image, "edits": edits}
        self.corrections = max(self.corrections, _ask("/runs/run/corrections", body)["total"])

    def job(self) -> None:
        body = {"command": "evaluate", "run": "run", "device": "cpu"}
        self.jobs.append(_ask("/jobs", body)["job"]["id"])

    def answer(self, trial: str, answer: str) -> None:
        if not self._word:
            self._word = _ask("/studies/study/raters", {"rater": "r1"})["word"]
        given = {**self.answers, trial: {"answer": answer, "ms": 10, "changes": 0}}
        try:
            _ask("/studies/study/raters/r1", {"word": self._word, "answers": given}, "PUT")
        except ValueError:  # no answer to this question: another may be
            return
        self.answers = given

    def lost(self) -> str:
        """What of it a server that was started again does not know."""
        corrections = _ask("/runs/run/corrections", wait=LIMIT)["total"]
        self.jobs_there = _ask("/jobs")["jobs"][::-1]
        lost = [f"{self.corrections} corrections, {corrections} are there"] if corrections < self.corrections else []
        lost += [f"job {name}" for name in self.jobs if name not in {job["id"] for job in self.jobs_there}]
        if self.answers:
            (rater,) = _ask("/studies/study")["raters"]
            if rater["answered"] < len(self.answers):
                lost.append(f"{len(self.answers)} answers of a rater, {rater['answered']} are there")
        return "; ".join(lost)

    def wait_for_jobs(self) -> None:
        ends = time.monotonic() + LIMIT
        while time.monotonic() < ends:
            self.jobs_there = _ask("/jobs")["jobs"][::-1]
            if not any(job["state"] in ("queued", "running") for job in self.jobs_there):
                return
            time.sleep(0.5)


def _ask(address: str, body: Mapping[str, object] | None = None, method: str | None = None, wait: float = 60) -> Any:
    """An answer of the server; while it starts, it is asked again."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if body else {}
    ends = time.monotonic() + wait
    while True:
        try:
            url = f"http://127.0.0.1:{PORT}/api/v1{address}"
            request = urllib.request.Request(url, data, headers, method=method)
            with urllib.request.urlopen(request, timeout=wait) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise ValueError(f"{error.code}: {error.read().decode()[:500]}") from None
        except urllib.error.URLError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.2)
