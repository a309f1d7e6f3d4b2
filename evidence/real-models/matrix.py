"""Encoder layouts × what is done with them: it works, or is refused before any work begins, with a reason.

python evidence/real-models/matrix.py OUT.jsonl [--real] [--device cuda] [--steps tokens,frozen,…] [--jobs 4] [NAME …]

Layouts are the small ones of the slow test (`tests/encoders/matrix`), or with --real those of `layouts.py` at the size
they are published in; weights are random. A row is appended as a cell ends, and cells that have one are not run again.
The step `tokens` compares stored tokens with live ones, at real size also with the original package's forward.
"""

import argparse
import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from layouts import REAL, agreement, write_published

from conceptlens.core.devices import VARIABLE
from conceptlens.core.errors import UserError

LAYOUTS: Any = import_module("tests.encoders.matrix.layouts").LAYOUTS
steps: Any = import_module("tests.encoders.matrix.test_matrix").steps

IMAGES = {False: 48, True: 24}  # drawn shapes a run trains, validates and tests on
STEPS = ("tokens", "frozen", "last", "explain", "decompose", "pt2", "onnx")


@contextmanager
def drawn_quickly() -> Iterator[None]:
    """Large random weights repeat a row of 65,537 numbers: most are overwritten by those of a file a moment later."""
    plain = {name: getattr(torch.Tensor, name) for name in ("normal_", "uniform_")}

    def quick(name: str) -> Callable[..., torch.Tensor]:
        def fill(self: torch.Tensor, *args: Any, **more: Any) -> torch.Tensor:
            count = self.numel()
            if self.device.type != "cpu" or count < 10**6 or not self.is_contiguous():
                return plain[name](self, *args, **more)
            with torch.no_grad():
                row = plain[name](torch.empty(65_537, dtype=self.dtype), *args, **more)
                flat, whole = self.view(-1), count // len(row) * len(row)
                flat[:whole].view(-1, len(row)).copy_(row)
                flat[whole:].copy_(row[: count - whole])
            return self

        return fill

    for name in plain:
        setattr(torch.Tensor, name, quick(name))
    try:
        yield
    finally:
        for name, function in plain.items():
            setattr(torch.Tensor, name, function)


def run_layout(name: str, args: argparse.Namespace, wanted: list[str]) -> None:
    """The cells of one layout."""
    device = torch.device(args.device)
    with tempfile.TemporaryDirectory(dir=args.work) as place:
        folder, original = Path(place), None
        (folder / "model").mkdir()
        if args.real:
            keys, model, original = write_published(name, folder / "model", device)
            del model
        else:
            keys = LAYOUTS[name](folder / "model")
        with drawn_quickly() if args.real else nullcontext():
            todo = {"tokens": lambda: agreement(keys, original, device), **steps(keys, folder, IMAGES[args.real])}
            for step in wanted:
                write_row(args, name, step, todo[step])
                if step == "tokens":
                    original = None  # a giant's room is wanted
                    gc.collect()


def write_row(args: argparse.Namespace, name: str, step: str, work: Callable[[], Any]) -> None:
    began = time.perf_counter()
    row: dict[str, Any] = {"layout": name, "size": "real" if args.real else "small", "step": step}
    try:
        measured = work()
        row["outcome"] = "works"
        row |= measured if step == "tokens" else {}
    except UserError as error:
        row |= {"outcome": "refused", "reason": str(error)[:500]}
    except Exception as error:  # a finding; the other cells are still wanted
        row |= {"outcome": "failed", "reason": f"{type(error).__name__}: {error}"[:500]}
    row |= {"seconds": round(time.perf_counter() - began, 1), "device": args.device}
    row["memory GB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 1)
    with args.out.open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(row, flush=True)


def missing(args: argparse.Namespace, name: str) -> list[str]:
    lines = args.out.read_text().splitlines() if args.out.exists() else []
    rows = [json.loads(line) for line in lines]
    size = "real" if args.real else "small"
    done = {row["step"] for row in rows if (row["layout"], row["size"]) == (name, size)}
    needed = [step for step in args.steps.split(",") if step not in done]
    if {"explain", "decompose", "pt2", "onnx"} & set(needed) and "last" not in needed:
        needed = [step for step in STEPS if step in needed or step == "last"]  # they read its run
    return [step for step in STEPS if step in needed]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", default=",".join(STEPS))
    parser.add_argument("--jobs", type=int, default=1, help="processes; each takes every n-th layout")
    parser.add_argument("--work", type=Path, help="where models and runs are written, and deleted")
    args = parser.parse_intermixed_args()
    os.environ[VARIABLE] = args.device
    names = args.names or list(REAL if args.real else LAYOUTS)
    if args.jobs > 1:
        words = [sys.executable, __file__, str(args.out), "--device", args.device, "--steps", args.steps]
        words += ["--real"] * args.real + (["--work", str(args.work)] if args.work else [])
        parts = [subprocess.Popen([*words, *names[i :: args.jobs]]) for i in range(min(args.jobs, len(names)))]
        sys.exit(max(part.wait() for part in parts))
    for name in names:
        if wanted := missing(args, name):
            run_layout(name, args, wanted)


if __name__ == "__main__":
    main()
