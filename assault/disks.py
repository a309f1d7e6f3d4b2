"""Disks that are full or read-only: an error that says so, nothing half-written, and the same result with more room."""

import contextlib
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from assault.watch import Ended, Part, command, content, judge, tree_of
from assault.world import World

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
        with mounted(place, kilobytes) as resized:
            if resized is None:
                part.more["skipped"] = "no file system can be mounted here"
                return
            out, what = place / "run", f"a disk of {kilobytes} KB"
            done = judge(part, each, f"train, {what}", command("train", world.data.recipe, "--out", out, "--quiet"))
            if left := _leftovers(out):
                part.found(each, what, "lost", f"left behind: {left}")
            resized()
            if not done:
                begun = (out / "run.json").exists()
                again = ["resume", out] if begun else ["train", world.data.recipe, "--out", out, "--overwrite"]
                judge(part, each, f"with room again, {what}", command(*again, "--quiet"))
            differ = [name for name in KEPT if not (out / name).is_file() or content(out / name) != wanted[name]]
            if differ:
                part.found(each, f"{what}, then resumed", "changed", ", ".join(differ))


@contextlib.contextmanager
def mounted(place: Path, kilobytes: int) -> Iterator[Callable[[], None] | None]:
    """A file system of that size, and what makes it large; None where none can be mounted."""
    place.mkdir(exist_ok=True)

    def mount(options: str) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)], check=True, capture_output=True)

    try:
        mount(f"size={kilobytes}k")
    except (OSError, subprocess.CalledProcessError):
        yield None
        return
    try:
        yield lambda: mount("remount,size=100m")
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
