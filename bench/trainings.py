"""Trainings per second of a comparison: run it for so many seconds, and see how far it came.

    python bench/trainings.py BLOOD [--seconds 60] [--jobs 16] [--folder FOLDER] [--json FILE]

The comparison is that of evidence/ivq-table1 on blood cells, 225 trainings from stored tokens of one frozen encoder.
BLOOD is the folder of WBCAtt's tables with PBC's images in a folder a class. Trainings differ in length, so the time
that all would take is estimated by the share of work that the finished ones are, in seconds of an earlier full round
(evidence/ivq-table1/seconds-gpu.json.gz). Encoding the images is part of it. FOLDER keeps what is done: another call
goes on, and its seconds have to be added to those before.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from conceptlens.core.files import read_json, write_json
from conceptlens.workflows.prepare.prepare import write_set
from conceptlens.workflows.prepare.sets import blood_cells

EVIDENCE = Path(__file__).parents[1] / "evidence" / "ivq-table1"
HASH = re.compile(r"-[0-9a-f]{10}$")  # of a job's recipe, at the end of its name


def earlier() -> dict[str, float]:
    """Seconds of each training in an earlier full round."""
    jobs = read_json(EVIDENCE / "seconds-gpu.json.gz")["comparisons"]["blood"]["jobs"]
    return {HASH.sub("", job["job"]): job["seconds"] for job in jobs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("blood", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--folder", type=Path, default=Path("/tmp/conceptlens-trainings"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows, images = blood_cells(args.blood)
    args.folder.mkdir(parents=True, exist_ok=True)
    write_set(args.folder, "blood", (rows, images))
    file, out = args.folder / "blood-cells.yaml", args.folder / "out"
    file.write_text((EVIDENCE / "blood-cells.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "conceptlens", "compare", str(file), "--out", str(out), "--jobs", str(args.jobs)]
    began = time.time()
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        process.wait(args.seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    ended = time.time()
    jobs = [
        json.loads(path.read_text(encoding="utf-8")) | {"at": path.stat().st_mtime - began}
        for path in out.glob("jobs/*.json")
    ]
    jobs = [job for job in jobs if job.get("status") in ("done", "failed")]
    known = earlier()
    done: list[dict[str, Any]] = [
        {"job": HASH.sub("", job["id"]), "seconds": job["seconds"], "at": round(job["at"], 2), "reason": job["reason"]}
        for job in sorted(jobs, key=lambda job: job["at"])
    ]
    work = sum(known.get(job["job"], 0) for job in done if not job["reason"]) / sum(known.values())
    found = {
        "jobs_at_once": args.jobs,
        "seconds": ended - began,
        "trainings": len(done),
        "of": len(known),
        "share_of_work": work,
        "all_would_take_seconds": (ended - began) / work if work else None,
        "done": done,
    }
    print(json.dumps({name: value for name, value in found.items() if name != "done"}))
    if args.json:
        write_json(args.json, {"cores": os.cpu_count(), "load": os.getloadavg()[0], "found": found})


if __name__ == "__main__":
    main()
