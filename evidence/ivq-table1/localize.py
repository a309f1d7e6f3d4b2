"""Judge the maps of a comparison's runs: HAM10000's masks, IDRiD's lesion masks, CUB's boxes and parts, drawn parts.

    cd DATA
    python …/evidence/ivq-table1/localize.py FILE RUNS --out maps.json [--images 200] [--seeds 1] [--jobs 14]

FILE and RUNS as for `conceptlens compare FILE --out RUNS`. Every run that is done is judged by Grad-CAM, the same for
all, and by its own map where it has one. What is there is not judged again; each result is written as it comes. Blood
cells have no regions and are passed over.
"""

import argparse
import contextlib
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_json
from conceptlens.evaluation.localization.localize import localize_run
from conceptlens.runs.opened import OpenedRun
from conceptlens.workflows.compare.compare import open_comparison
from conceptlens.workflows.compare.jobs import Job
from conceptlens.workflows.compare.state import Places, all_jobs

LESIONS = ("microaneurysms", "haemorrhages", "hard exudates", "soft exudates")
JUDGED: dict[str, dict[str, Any] | None] = {  # None: the regions of the run's own data
    "HAM10000": None,
    "CUB": None,
    "shapes": None,
    "IDRiD": {
        "source": "lesions.csv",
        "images": "lesions",
        "regions": {
            "masks": "lesion-masks",
            "mask_files": {part: f"{{name}}_{part.replace(' ', '-')}.png" for part in LESIONS},
        },
    },
}
SHOWN = ("energy", "lift", "pointing", "pointing_tenth", "iou_best")


def told(estimate: dict[str, Any]) -> list[float | None]:
    """Value and interval."""
    ends = estimate.get("interval") or (None, None)
    return [None if each is None else round(float(each), 4) for each in (estimate["value"], *ends)]


def judge(run: Path, data: str, images: int) -> dict[str, Any]:
    """What is kept of one run's localization."""
    torch.set_num_threads(1)
    started = time.monotonic()
    try:
        found = localize_run(OpenedRun.open(run), data=JUDGED[data], n=images).to_dict()
    except UserError as error:
        return {"failed": str(error)[:300]}
    return {
        "images": found["images"],
        "seconds": round(time.monotonic() - started, 1),
        "targets": {
            target: {
                "maps": {name: {key: told(one[key]) for key in SHOWN} for name, one in part["maps"].items()},
                "against": {name: told(one["energy"]) for name, one in part["against"].items()},
            }
            for target, part in found["targets"].items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    comparison, folder = open_comparison(given.file, given.runs)
    places, results = Places(folder), read_json(given.out) if given.out.exists() else {}
    results = {key: value for key, value in results.items() if key != "schema" and "failed" not in value}
    todo: dict[str, tuple[Path, str]] = {}
    for job in all_jobs(comparison, folder):
        if not isinstance(job, Job) or job.trial is not None or job.cell.data not in JUDGED:
            continue
        key = f"{job.cell.data} | {job.cell.entry.name} | {job.recipe.seed}"
        first = job.recipe.seed in comparison.file.seeds[: given.seeds]
        if first and key not in results and places.state(job) == "done" and job.cell.entry.name != "black box":
            todo[key] = (places.run(job), job.cell.data)
    print(f"{len(todo)} runs to judge, {len(results)} there", flush=True)
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ProcessPoolExecutor(given.jobs, get_context("spawn"))) if given.jobs > 1 else None
        if pool is None:
            for key, (run, data) in todo.items():
                results[key] = judge(run, data, given.images)
                write_json(given.out, results)
                print(key, results[key].get("failed", results[key].get("seconds")), flush=True)
            return
        waiting = {pool.submit(judge, run, data, given.images): key for key, (run, data) in todo.items()}
        for done in as_completed(waiting):
            key = waiting[done]
            results[key] = done.result()
            write_json(given.out, results)
            print(key, results[key].get("failed", results[key].get("seconds")), flush=True)


if __name__ == "__main__":
    main()
