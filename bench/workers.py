"""Prediction of shards by one, two and four processes, against the cost model: start + images × cost / processors.

    python bench/workers.py RUN 'SHARDS' [--workers 1,2,4] [--json FILE]

The cost of an image is the processor's time of the run with one worker; the start is that of an empty process.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from conceptlens.core.files import read_json, write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("shards")
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    for workers in map(int, args.workers.split(",")):
        with tempfile.TemporaryDirectory() as name:
            out = Path(name) / "predictions"
            words = ["predict", args.run, args.shards, "--out", str(out), "--jobs", str(workers), "--quiet"]
            before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run([sys.executable, "-m", "conceptlens", *words], check=True, stdout=subprocess.DEVNULL)
            after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - started
            images = read_json(out / "summary.json")["images"]
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        rows.append({"workers": workers, "images": images, "seconds": seconds, "processor_seconds": used})
        rows[-1]["load"] = os.getloadavg()[0]
        print(rows[-1], flush=True)
    if args.json:
        write_json(args.json, {"cores": os.cpu_count(), "rows": rows})


if __name__ == "__main__":
    main()
