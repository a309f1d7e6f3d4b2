"""Prediction of shards by one, two and four processes, against the cost model of docs/scale.md.

    OMP_NUM_THREADS=1 python bench/workers.py RUN 'SHARDS' [--workers 1,2,4] [--json FILE]

The model has two numbers, both from one worker: the cost of a further image (all shards, several, against the first of
them) and the start. N workers and their parent start Python each, so they take

    start + start · max(1, N / cores) + images · cost / min(N, cores)        (one worker has no parent: one start)
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from conceptlens.core.files import read_json, write_json
from conceptlens.data.sources.shard_files import expand


def measure(run: str, shards: str, workers: int) -> dict[str, Any]:
    """One call of the command."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "predictions"
        words = ["predict", run, shards, "--out", str(out), "--jobs", str(workers), "--quiet"]
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, "-m", "conceptlens", *words], check=True, stdout=subprocess.DEVNULL)
        after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - started
        images = read_json(out / "summary.json")["images"]
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    row = {"workers": workers, "images": images, "seconds": seconds, "processor_seconds": used}
    print(row, flush=True)
    return {**row, "load": os.getloadavg()[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("shards")
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    cores = os.cpu_count() or 1
    few = measure(args.run, expand(args.shards)[0], 1)
    rows = [measure(args.run, args.shards, workers) for workers in map(int, args.workers.split(","))]
    one = rows[0]
    cost = (one["seconds"] - few["seconds"]) / (one["images"] - few["images"])
    start = few["seconds"] - few["images"] * cost
    for row in rows:
        starts = 1 if row["workers"] == 1 else 1 + max(1.0, row["workers"] / cores)
        row["model_seconds"] = start * starts + row["images"] * cost / min(row["workers"], cores)
        print(f"{row['workers']} workers: {row['seconds']:.1f} s, model {row['model_seconds']:.1f} s")
    if args.json:
        about = {"cores": cores, "image_microseconds": cost * 1e6, "start_seconds": start}
        write_json(args.json, {**about, "one_shard": few, "rows": rows})


if __name__ == "__main__":
    main()
