"""Disks that are full or read-only: an error that says so, nothing half-written, and the same result with more room."""

import contextlib
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from fastapi.testclient import TestClient

from assault.kills import Forked
from assault.run_folders import ADDRESSES, SENT
from assault.watch import WAIT, Ended, Part, command, content, judge, tree_of
from assault.world import World
from conceptlens.web.server.app import create_app

FROZEN = ("--encoder.train", "none", "--regularizer", "none", "--quiet")
KEPT = ("metrics.json", "model/weights.safetensors", "stories.json", "predictions/test.safetensors")


def assault_full_disk(part: Part, world: World, seed: int, number: int) -> None:
    """No file may grow beyond a limit, as on a disk that is full; then there is room again."""
    wanted = {name: content(world.run / name) for name in KEPT}
    for each in range(number):
        draw = random.Random(f"disk {seed} {each}")
        out = world.root / "full"
        shutil.rmtree(out, ignore_errors=True)
        limit = int(10 ** draw.uniform(2, 5.3))
        ended = _limited(limit, "train", world.data.recipe, "--out", out, "--quiet")
        done = judge(part, each, f"train, files of at most {limit} bytes", ended)
        if left := _leftovers(out):
            part.found(each, f"files of at most {limit} bytes", "lost", f"left behind: {left}")
        if not done:
            begun = (out / "run.json").exists()
            again = ["resume", out] if begun else ["train", world.data.recipe, "--out", out]
            judge(part, each, "with room again", command(*again, "--quiet"))
        differ = [name for name in KEPT if not (out / name).is_file() or content(out / name) != wanted[name]]
        if differ:
            part.found(each, f"files of at most {limit} bytes, then resumed", "changed", ", ".join(differ))


def assault_real_disk(part: Part, world: World, seed: int, number: int) -> None:
    """A file system that is really full: a small one in memory, which is then made larger. Only root may mount one."""
    wanted = {name: content(world.run / name) for name in KEPT}
    place = world.root / "small"
    for each in range(number):
        draw = random.Random(f"mount {seed} {each}")
        kilobytes = int(10 ** draw.uniform(1.3, 2.9))
        with mounted(place, kilobytes) as remount:
            if remount is None:
                part.more["skipped"] = "no file system can be mounted here"
                return
            out, what = place / "run", f"a disk of {kilobytes} KB"
            done = judge(part, each, f"train, {what}", command("train", world.data.recipe, "--out", out, "--quiet"))
            if left := _leftovers(out):
                part.found(each, what, "lost", f"left behind: {left}")
            remount("size=100m")
            if not done:
                begun = (out / "run.json").exists()
                again = ["resume", out] if begun else ["train", world.data.recipe, "--out", out, "--overwrite"]
                judge(part, each, f"with room again, {what}", command(*again, "--quiet"))
            differ = [name for name in KEPT if not (out / name).is_file() or content(out / name) != wanted[name]]
            if differ:
                part.found(each, f"{what}, then resumed", "changed", ", ".join(differ))


def assault_read_only(part: Part, world: World, seed: int, number: int) -> None:
    """A file system that is mounted read-only, from the start or while a training writes to it."""
    with mounted(world.root / "read-only", 100_000) as remount:
        if remount is None:
            part.more["skipped"] = "no file system can be mounted here"
            return
        place = world.root / "read-only"
        run, image = Path(shutil.copytree(world.run, place / "run")), world.data.image(0)
        remount("ro")
        before, written = tree_of(place), 0
        for words in (
            ("predict", run, image),
            ("explain", run, image, "--out", world.root / "explained"),
            ("rehash", run, "--check"),
            ("evaluate", run),
            ("report", run),
            ("leakage", run, "--permutations", "79", "--resamples", "10"),
            ("audit", run),
            ("migrate", run),
            ("resume", run),
            ("study", "make", run, "--n", "10", "--split", "train", "--out", place / "study"),
            ("train", world.data.recipe, "--out", place / "new", "--quiet"),
            ("encode", world.data.recipe, "--encoder.store", place / "tokens", *FROZEN),
        ):
            ended = command(*words)
            judge(part, -1, f"{words[0]}, read-only", ended)
            written += ended.code == 2 and "Read-only" in ended.err
        part.more["refused because nothing can be written"] = written
        client = TestClient(create_app([place]), base_url="http://127.0.0.1", raise_server_exceptions=False)
        for address, body in (*((address, None) for address in ADDRESSES), *SENT[1:3]):
            asked = f"/api/v1{address.format(run='run')}"
            answer = client.get(asked) if body is None else client.post(asked, json=body)
            part.attempts += 1
            part.accepted += answer.status_code == 200
            part.refused += answer.status_code in (404, 409, 400, 422)
            if answer.status_code >= 500:
                part.found(-1, address, "server error", answer.text)
        if tree_of(place) != before:
            part.found(-1, "read-only", "changed", "files are others")
        wanted, out, stopped = {name: content(world.run / name) for name in KEPT}, place / "out", 0
        for each in range(number):
            remount("rw")
            shutil.rmtree(out, ignore_errors=True)
            process = Forked(["train", world.data.recipe, "--out", out, "--quiet"])
            process.wait(random.Random(f"read-only {seed} {each}").uniform(0.1, 1.5))
            while process.code is None and not _to_read_only(remount):
                process.wait(0.01)
            process.wait(WAIT)
            ended = Ended(-1 if process.code is None else process.code, "", process.said)
            done = judge(part, each, "train, while it became read-only", ended)
            stopped += "Read-only" in process.said
            remount("rw")
            if not done:
                begun = (out / "run.json").exists()
                again = ["resume", out] if begun else ["train", world.data.recipe, "--out", out, "--overwrite"]
                judge(part, each, "writable again", command(*again, "--quiet"))
            differ = [name for name in KEPT if not (out / name).is_file() or content(out / name) != wanted[name]]
            if differ:
                part.found(each, "became read-only, then resumed", "changed", ", ".join(differ))
        part.more["trainings that it stopped"] = stopped


def _to_read_only(remount: Callable[[str], None]) -> bool:
    """Whether it could be made so: not while a file is being written."""
    try:
        remount("ro")
    except subprocess.CalledProcessError:
        return False
    return True


@contextlib.contextmanager
def mounted(place: Path, kilobytes: int) -> Iterator[Callable[[str], None] | None]:
    """A file system of that size, and what mounts it with other options; None where none can be mounted."""
    place.mkdir(exist_ok=True)

    def mount(options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True, capture_output=True)

    try:
        mount(f"size={kilobytes}k")
    except (OSError, subprocess.CalledProcessError):
        yield None
        return
    try:
        yield lambda options: mount(f"remount,{options}")
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False, capture_output=True)


def assault_full_results(part: Part, world: World, seed: int, number: int) -> None:
    """A measure that finds no room leaves the run as it was."""
    for each in range(number):
        draw = random.Random(f"result {seed} {each}")
        run = world.copy_run("results")
        name = draw.choice(("evaluate", "report", "rehash", "migrate"))
        limit = int(10 ** draw.uniform(1, 4))
        before = tree_of(run)
        done = judge(part, each, f"{name}, files of at most {limit} bytes", _limited(limit, name, run))
        after = tree_of(run)
        changed = [file for file in before if after.get(file) != before[file] and file != "manifest.jsonl"]
        if changed and not done:
            part.found(each, f"{name}, files of at most {limit} bytes", "changed", ", ".join(changed))
        if not judge(part, each, "predict afterwards", command("predict", run, world.data.image(0))):
            part.found(each, f"{name}, files of at most {limit} bytes", "lost", "the run cannot be read any more")


def _leftovers(out: Path) -> list[str]:
    return [entry.name for entry in out.rglob(".*") if entry.suffix in (".tmp", ".old")] if out.exists() else []


def _limited(limit: int, *words: object) -> Ended:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        return command(*words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
