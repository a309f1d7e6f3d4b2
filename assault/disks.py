"""Disks that are full or read-only: an error that says so, nothing half-written, and the same result with more room."""

import random
import resource
import shutil
import signal
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
