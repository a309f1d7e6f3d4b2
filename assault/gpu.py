"""Kills on a GPU: `python -m assault.gpu OUT.jsonl [--seconds 130] [--at-once 6] [--device cuda] [--seed 0]`.

`train`, `encode` and `decompose` on the built-in cells, small. Some of each are never stopped; the others are killed
once or twice at a random moment of their work and gone on with. Each is compared with the first: equal bits are not
wanted on a GPU, only that those that were killed differ from it by no more than those that nobody stopped.

A row is written as soon as an attempt has ended, so that nothing is lost when the time is over. Everything is imported
once and then forked, so this process must not touch CUDA itself.
"""

import argparse
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # to ask whether there is a GPU must not begin to use it

import yaml

from assault.kills import NETWORK, Forked, import_all

KILLED = {"train": 14, "encode": 5, "decompose": 5}  # runs that are killed
FREE = {"train": 3, "encode": 2, "decompose": 2}  # runs that nobody stops
CELLS = {"source": "blood-cells"}
ENCODER = {"name": "builtin/vit-mini", "image_size": 32, "options": {"width": 32, "depth": 2, "heads": 2}}
WIDE = ENCODER | {"image_size": 64, "train": "none", "options": {"width": 192, "depth": 2, "heads": 4}}
TRAINING = {"batch_size": 16, "learning_rate": 1e-3, "warmup": 1, "checkpoint_every": 1, "rank_every": 0, "threads": 1}


@dataclass(frozen=True)
class Attempt:
    """One command, from its start to its end."""

    command: str
    number: int  # those below FREE are never stopped
    root: Path
    device: str
    epochs: int = 12

    @property
    def out(self) -> Path:
        return self.root / f"{self.command}-{self.number}"

    @property
    def row(self) -> Path:
        return self.out.with_suffix(".json")

    @property
    def words(self) -> list[object]:
        end = ["--device", self.device, "--quiet"]
        if self.command == "decompose":
            small = ["--data", "blood-cells", "--image-size", "32", "--n", "96", "--per-image", "4", "--examples", "2"]
            layers = ["--layers", "one", "--layers", "two", "--validate-on", "0"]
            return ["decompose", f"{self.root / 'network.py'}:build", *small, *layers, "--out", self.out, *end]
        recipe: dict[str, Any] = {"data": CELLS, "method": "cbm", "regularizer": "none", "out": str(self.out)}
        if self.command == "train":
            recipe |= {"data": CELLS | {"limit": 96}, "method": "evidence-cbm", "encoder": ENCODER}
            recipe |= {"training": TRAINING | {"epochs": self.epochs}, "metrics": {"bootstrap": 0, "rank_images": 4}}
            del recipe["regularizer"]
        else:
            recipe["encoder"] = WIDE | {"store": str(self.out)}
        file = self.out.with_suffix(".yaml")
        file.write_text(yaml.safe_dump(recipe))
        return [self.command, file, *end]

    @property
    def again(self) -> list[object]:
        """What goes on with a run that was killed."""
        if self.command == "train" and (self.out / "run.json").exists():
            return ["resume", self.out, "--device", self.device, "--quiet"]
        begun = {"train": False, "encode": True, "decompose": (self.out / "settings.json").exists()}
        return self.words if begun[self.command] else [*self.words, "--overwrite"]

    @property
    def there(self) -> int:
        """Epochs of a training, files of the others."""
        if self.command != "train":
            return sum(path.is_file() for path in self.out.rglob("*"))
        with suppress(OSError):
            return sum('"loss"' in line for line in (self.out / "history.jsonl").read_text("utf-8").splitlines())
        return 0

    @property
    def whole(self) -> "Attempt":
        """The first of its kind, which nobody stops."""
        return replace(self, number=0)

    def result(self) -> dict[str, Any]:
        """How it ended, and by what it differs from the first."""
        row: dict[str, Any] = {"kind": "kill", "command": self.command, "number": self.number, "error": "died"}
        with suppress(OSError):
            row = json.loads(self.row.read_text())
        if self.number and row.get("code") == 0:
            try:
                row |= differences(self.out, self.whole.out)
            except Exception as error:
                row["error"] = f"cannot be compared: {error!r}"
        return row

    def run(self, seed: int, work: float, ends: float) -> None:
        """To its end, killed or not; `work` is about how long a run takes once its folder is there."""
        draw, kills, words, began = random.Random(f"{self.command} {seed} {self.number}"), [], self.words, 0.0
        free = self.number < FREE[self.command]
        for last in [True] if free else [False] * draw.choice((1, 1, 2)) + [True]:
            process, started = Forked(words), time.monotonic()
            while not self.out.exists() and not process.wait(0.002) and time.monotonic() < ends:
                pass
            began = time.monotonic()
            wait = ends - began if last else min(ends - began, draw.uniform(0.02, 0.9) * work)
            if not process.wait(max(0.1, wait)):
                kind = signal.SIGKILL if last else draw.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
                os.kill(process.pid, kind)
                after = round(time.monotonic() - started, 2)
                process.wait(60)
                if not last:
                    kills.append({"after": after, "signal": kind.name, "there": self.there})
            if not last:
                words = self.again
        row = {"kind": "kill", "command": self.command, "number": self.number, "seed": seed, "kills": kills}
        row |= {"code": process.code, "work": round(time.monotonic() - began, 2)}
        if process.code != 0:
            row["error"] = "the time was over" if time.monotonic() >= ends else process.said[-500:]
        self.row.with_suffix(".part").write_text(json.dumps(row))
        self.row.with_suffix(".part").rename(self.row)


def differences(run: Path, whole: Path) -> dict[str, Any]:
    """By what a run differs from the first of its kind."""
    from safetensors.numpy import load_file

    def kept(folder: Path) -> dict[str, Any]:
        import numpy as np

        tensors: dict[str, Any] = {}
        for file in sorted(folder.rglob("*")):
            name = str(file.relative_to(folder))
            if file.suffix == ".npy":
                bits = np.load(file, allow_pickle=False)  # of a store: the bits of half precision
                short = bits.dtype == np.int16 and "bfloat16" not in (folder / "store.json").read_text("utf-8")
                tensors[name] = bits.view(np.float16) if short else (bits.astype(np.int32) << 16).view(np.float32)
            elif file.suffix == ".safetensors" and not name.startswith("state/"):
                tensors |= {f"{name}:{key}": value for key, value in load_file(file).items()}
        return tensors

    one, other = kept(run), kept(whole)
    if sorted(one) != sorted(other) or any(one[name].shape != other[name].shape for name in other):
        return {"error": f"other tensors: {sorted(one.keys() ^ other.keys())[:5]}"}
    flipped = 0
    for name in [name for name in other if name.endswith(":directions")]:  # whose signs mean nothing
        signs = [-1.0 if product < 0 else 1.0 for product in (one[name] * other[name]).sum(0)]
        one[name], flipped = one[name] * signs, signs.count(-1.0)
    filled = [name for name in other if other[name].size and other[name].dtype.kind in "fiub"]
    apart = {name: float(abs(one[name].astype(float) - other[name].astype(float)).max()) for name in filled}
    row: dict[str, Any] = {
        "tensors": len(other),
        "equal tensors": sum(one[name].tobytes() == other[name].tobytes() for name in other),
        "difference": max(apart.values()),
        "of": max(apart, key=lambda name: apart[name]),
        "flipped directions": flipped,
        "largest": max(float(abs(other[name].astype(float)).max()) for name in filled),
    }
    history = [folder / "history.jsonl" for folder in (run, whole)]
    if all(file.exists() for file in history):
        lines = [[json.loads(line) for line in file.read_text("utf-8").splitlines()] for file in history]
        mine, theirs = ([line["loss"] for line in each if "loss" in line] for each in lines)
        weights = "model/weights.safetensors:"
        a, b = (tensors["predictions/test.safetensors:logits"] for tensors in (one, other))
        row |= {
            "weights": max(far for name, far in apart.items() if name.startswith(weights)),
            "loss, relative": max(abs(x / y - 1) for x, y in zip(mine, theirs, strict=True)),
            "scores": "logits",
            "largest difference of scores": float(abs(a - b).max()),
            "largest score": float(abs(b).max()),
            "same predictions": bool((a.argmax(1) == b.argmax(1)).all()),
            "epochs": len(theirs),
        }
    return row


class Pool:
    """Attempts beside each other, each in a process that this one forks; it yields their rows as they end."""

    def __init__(self, out: Path, seed: int, at_once: int, ends: float) -> None:
        self.out, self.seed, self.at_once, self.ends = out, seed, at_once, ends
        self.work: dict[str, float] = {}

    def run(self, attempts: list[Attempt]) -> Iterator[dict[str, Any]]:
        waiting, running, ended = attempts[::-1], dict[int, Attempt](), list[Attempt]()
        while running or (waiting and time.monotonic() < self.ends):
            while waiting and len(running) < self.at_once and time.monotonic() < self.ends:
                attempt = waiting.pop()
                if (child := os.fork()) == 0:
                    with suppress(BaseException):
                        attempt.run(self.seed, self.work.get(attempt.command, 5.0), self.ends)
                    os._exit(0)
                running[child] = attempt
            child, _ = os.wait()
            ended.append(running.pop(child))
            for attempt in [each for each in ended if each.whole.row.exists() or not running]:
                ended.remove(attempt)
                row = attempt.result()
                with self.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                yield row


def machine() -> dict[str, str]:
    """Where this runs, without touching the GPU."""
    import torch

    words = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    gpu = "none"
    with suppress(OSError):
        gpu = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip() or gpu
    return {"kind": "kills on", "gpu": gpu, "torch": torch.__version__, "python": platform.python_version()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=130.0, help="after everything is imported")
    parser.add_argument("--at-once", type=int, default=6)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="assault-") as place:
        root = Path(place)
        (root / "network.py").write_text(NETWORK)
        for command in ("train", "decompose"):
            import_all(Attempt(command, 99, root, "cpu", 2).words)
        print(f"{time.monotonic() - began:.0f} s: everything is imported", flush=True)
        pool = Pool(args.out, args.seed, args.at_once, time.monotonic() + args.seconds)
        with args.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(machine()) + "\n")
        count = {"kills": 0, "ended": 0, "late": 0, "failed": 0}
        free = [Attempt(name, each, root, args.device) for name in FREE for each in range(FREE[name])]
        killed = [
            Attempt(name, FREE[name] + each, root, args.device)
            for each in range(max(KILLED.values()))
            for name in KILLED
            if each < KILLED[name]
        ]
        for attempts in (free, killed):
            for row in pool.run(attempts):
                if not row.get("kills") and row.get("code") == 0:
                    pool.work[row["command"]] = row["work"]
                count["kills"] += len(row["kills"]) if row.get("code") == 0 else 0
                late = row.get("error") == "the time was over"
                count["late" if late else "failed" if "error" in row else "ended"] += 1
                print(f"{time.monotonic() - began:.0f} s: {json.dumps(row)[:400]}", flush=True)
    print("{ended} runs ended, {late} had no time, {failed} failed; {kills} kills in those that ended".format(**count))
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
