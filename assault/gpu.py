"""Kills of trainings on a GPU: `python -m assault.gpu OUT.jsonl [--attempts 12] [--seconds 400] [--device cuda]`.

Small trainings on the built-in cells run beside each other. Some are never stopped, the others are killed once or twice
behind a drawn epoch and gone on with. Each is compared with the first: equal bits are not wanted on a GPU, only that
the killed ones differ by no more than those that nobody stopped. Then the tests that once failed on a GPU machine.

Everything is imported once and then forked, so this process must not touch CUDA itself.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # to ask whether there is a GPU must not begin to use it

import yaml

from assault.kills import Forked, import_all

TESTS = (
    "tests/nn/transport/test_sinkhorn.py",
    "tests/gig/dictionaries/test_lasso.py",
    "tests/data/loading/test_resident.py",
)
FREE = 3  # trainings that nobody stops


def recipe(out: Path, epochs: int, limit: int) -> dict[str, Any]:
    return {
        "data": {"source": "blood-cells", "limit": limit},
        "encoder": {"name": "builtin/vit-mini", "image_size": 32, "options": {"width": 32, "depth": 2, "heads": 2}},
        "method": "evidence-cbm",
        "training": {"epochs": epochs, "batch_size": 16, "learning_rate": 1e-3, "warmup": 1, "checkpoint_every": 3,
                     "rank_every": 0, "threads": 1},
        "metrics": {"bootstrap": 0, "rank_images": 4},
        "out": str(out),
    }  # fmt: skip


def epochs_of(run: Path) -> int:
    """How many epochs a training has behind it."""
    with suppress(OSError):
        return sum('"loss"' in line for line in (run / "history.jsonl").read_text("utf-8").splitlines())
    return 0


def attempt(root: Path, number: int, epochs: int, limit: int, device: str, ends: float) -> None:
    """One training to its end, killed or not; its row says how it went."""
    draw = random.Random(f"gpu {number}")
    out, file = root / f"run-{number}", root / f"recipe-{number}.yaml"
    file.write_text(yaml.safe_dump(recipe(out, epochs, limit)))
    begin: list[object] = ["train", file, "--device", device, "--quiet"]
    words, kills, there = begin, [], 0
    for _ in range(0 if number < FREE else draw.choice((1, 1, 2))):
        wanted = draw.randint(there + 1, epochs - 1) if there < epochs - 1 else epochs
        kind = draw.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
        process, begun = Forked(words), time.monotonic()
        while not process.wait(0.01) and epochs_of(out) < wanted and time.monotonic() < ends:
            pass
        if not process.wait(draw.uniform(0, 0.1)):
            os.kill(process.pid, kind)
            process.wait(max(0.1, ends - time.monotonic()))
            there = epochs_of(out)
            kills.append({"after": round(time.monotonic() - begun, 2), "signal": kind.name, "epochs": there})
        words = (
            ["resume", out, "--device", device, "--quiet"] if (out / "run.json").exists() else [*begin, "--overwrite"]
        )
    process = Forked(words)
    if not process.wait(max(0.1, ends - time.monotonic())):
        os.kill(process.pid, signal.SIGKILL)
    row = {"kind": "kill", "number": number, "kills": kills, "code": process.code}
    if process.code != 0:
        row["error"] = process.said[-300:] or "the time was over"
    (root / f"row-{number}.json").write_text(json.dumps(row))


def compare(run: Path, whole: Path) -> dict[str, Any]:
    """By what a run differs from the first one."""
    from safetensors.numpy import load_file

    def losses(folder: Path) -> list[float]:
        lines = map(json.loads, (folder / "history.jsonl").read_text("utf-8").splitlines())
        return [line["loss"] for line in lines if "loss" in line]

    one, other = (load_file(folder / "model" / "weights.safetensors") for folder in (run, whole))
    a, b = (load_file(folder / "predictions" / "test.safetensors") for folder in (run, whole))
    mine, theirs = losses(run), losses(whole)
    return {
        "weights": max(float(abs(one[name].astype(float) - other[name]).max()) for name in other if other[name].size),
        "largest weight": max(float(abs(value).max()) for value in other.values() if value.size),
        "loss, relative": max(abs(x / y - 1) for x, y in zip(mine, theirs, strict=True)),
        "scores": "logits",
        "largest difference of scores": float(abs(a["logits"] - b["logits"]).max()),
        "largest score": float(abs(b["logits"]).max()),
        "same predictions": bool((a["logits"].argmax(1) == b["logits"].argmax(1)).all()),
        "epochs": len(theirs),
    }


def tests(seconds: float, report: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--junitxml={report}", *TESTS]
    words += ["-k", "line_by_line or in_order", "--maxfail=9"]
    return subprocess.Popen(
        ["timeout", str(round(seconds)), *words], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )


def rows_of(report: Path) -> list[dict[str, Any]]:
    """What became of each test."""
    if not report.exists():
        return [{"kind": "test", "test": " ".join(TESTS), "outcome": "failed", "detail": "the time was over"}]
    rows = []
    for case in ET.parse(report).iter("testcase"):
        bad = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        outcome = "passed" if bad is None else "skipped" if bad.tag == "skipped" else "failed"
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        detail = "" if bad is None else (bad.get("message") or "")[:500]
        seconds = round(float(case.get("time") or 0), 2)
        rows.append({"kind": "test", "test": name, "outcome": outcome, "seconds": seconds, "detail": detail})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--attempts", type=int, default=12)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--limit", type=int, default=96)
    parser.add_argument("--seconds", type=float, default=400.0)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    ends = time.monotonic() + args.seconds
    with tempfile.TemporaryDirectory(prefix="assault-") as place:
        root = Path(place)
        tested = tests(args.seconds, root / "tests.xml")
        first = root / "first.yaml"
        first.write_text(yaml.safe_dump(recipe(root / "first", 1, 16)))
        import_all(["train", first, "--device", "cpu", "--quiet"])
        children = []
        for number in range(args.attempts):
            child = os.fork()
            if child == 0:
                with suppress(BaseException):
                    attempt(root, number, args.epochs, args.limit, args.device, ends)
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        rows = []
        for number in range(args.attempts):
            file = root / f"row-{number}.json"
            row = json.loads(file.read_text()) if file.exists() else {"kind": "kill", "number": number, "error": "died"}
            if number and row.get("code") == 0 and (root / "run-0" / "metrics.json").exists():
                row |= compare(root / f"run-{number}", root / "run-0")
            rows.append(row)
        tested.wait()
        rows += rows_of(root / "tests.xml")
        args.out.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    kills = sum(len(row.get("kills", [])) for row in rows)
    print(f"{kills} kills; {[row.get('code') for row in rows if row['kind'] == 'kill']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
