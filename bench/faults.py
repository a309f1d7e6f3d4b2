"""A worker of a comparison is killed in the middle of a training: what is lost, and whether the weights change.

    python bench/faults.py [--engines local,ray,slurm] [--json FILE]

Four trainings, two at a time, checkpoints every few steps. As soon as a training has a checkpoint, its process gets
SIGKILL; what it had done since that checkpoint is lost. `slurm` is submitit's local executor. The weights are compared
with those of undisturbed local processes.
"""

import argparse
import json
import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from conceptlens.core.files import dump_yaml, write_json, write_text
from conceptlens.workflows.compare.compare import compare
from engines import weights

EVERY = 10  # steps between checkpoints


def comparison(folder: Path, epochs: int) -> Path:
    training = {"epochs": epochs, "batch_size": 32, "warmup": 0, "rank_every": 0, "threads": 1}
    tree = {
        "base": {
            "encoder": {"name": "builtin/vit-mini", "image_size": 48, "text": "builtin/hashed-text"},
            "method": "cbm",
            "training": {**training, "checkpoint_every": EVERY},
            "metrics": {"bootstrap": 0, "rank_images": 2},
        },
        "recipes": {"cbm": {"random_text": False}},
        "data": {"shapes": {"source": "shapes", "shapes": {"n": 600, "size": 48}}},
        "seeds": [0, 1, 2, 3],
        "statistics": {"resamples": 20, "permutations": 20},
    }
    path = folder / "comparison.yaml"
    write_text(path, dump_yaml(tree))
    return path


def states(out: Path) -> dict[str, list[int]]:
    """Steps at the checkpoints of each run."""
    found: dict[str, list[int]] = {}
    for path in sorted(out.glob("runs/*/state/[0-9]*")):
        found.setdefault(path.parts[-3], []).append(int(path.name.split("-")[0]))
    return found


def kill_one(out: Path, notes: dict[str, Any]) -> None:
    """Kill the process of the first training that has a checkpoint; note the first checkpoint that follows."""
    while not (begun := {run: steps for run, steps in states(out).items() if steps[-1] > EVERY}):
        time.sleep(0.02)
    (run, steps) = next(iter(begun.items()))
    (lock,) = out.glob(f"**/{run}.lock")
    newest = max((out / "runs" / run / "state").glob("[0-9]*"), key=lambda path: path.stat().st_mtime)
    lost = time.time() - newest.stat().st_mtime
    os.kill(int(json.loads(lock.read_text("utf-8"))["pid"]), signal.SIGKILL)
    killed = time.time()
    notes |= {"killed": run, "checkpoint_steps": steps[-1], "lost_seconds": lost}
    while (after := states(out).get(run, [0])[-1]) <= steps[-1]:
        time.sleep(0.02)
    notes |= {"next_checkpoint_steps": after, "seconds_to_next_checkpoint": time.time() - killed}
    while found := states(out).get(run):  # they are removed when the training has ended
        notes["steps"] = found[-1]
        time.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--engines", default="local,ray,slurm")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    os.environ.setdefault("RAY_worker_niceness", "0")  # as local processes
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = comparison(folder, args.epochs)
        compare(file, out=folder / "calm", at_once=2, quiet=True)
        calm = weights(folder / "calm")
        for engine in args.engines.split(","):
            out, notes = folder / engine, dict[str, Any]()
            thread = threading.Thread(target=kill_one, args=(out, notes), daemon=True)
            thread.start()
            words = ["cluster=local"] if engine == "slurm" else []
            result = compare(file, out=out, at_once=2, engine=engine, engine_option=words, quiet=True)  # type: ignore[arg-type]
            thread.join(10)
            rows.append(
                {"engine": engine, **notes, **result.results["jobs"]}
                | {"failed": len(result.failed), "same_bits": weights(out) == calm, "load": os.getloadavg()[0]}
            )
            print(rows[-1], flush=True)
    if args.json:
        write_json(args.json, {"checkpoint_every": EVERY, "cores": os.cpu_count(), "rows": rows})


if __name__ == "__main__":
    main()
