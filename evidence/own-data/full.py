"""Readers that help with small data, on whole sets: class, concepts, corrections and maps, as `evidence-cbm/family.py`.

    python evidence/own-data/full.py WORK OUT.jsonl --data FOLDER [--only NAME …] [--seeds 0 1 2] [--seconds S]

Each reader is trained at the rate that was tuned for `evidence-cbm` and examined on the same test images; the rows of
`evidence-cbm` as it is are those of `evidence/evidence-cbm`, and are made again here as a control where asked for.
"""

import argparse
import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "trust"), str(HERE.parent / "evidence-cbm")]

import family  # noqa: E402  # a neighbor
from jobs import Job, run_jobs  # noqa: E402

Tree = dict[str, Any]
STAGES: Tree = {
    "stages": [
        {"name": "concepts", "train": ["model.reader"], "select": "concept.auc"},
        {"name": "classes", "train": ["model.head"]},
    ]
}
READERS: dict[str, Tree] = {
    "evidence-cbm": {},
    "evidence-cbm, from zero": {"method": {"from_zero": True}},
    "evidence-cbm, from zero, in stages": {"method": {"from_zero": True}, "training": STAGES},
    "evidence-cbm, standardized, decay 10": {"method": {"standardize": True, "reader_decay": 10.0}},
}


def rate_of(name: str) -> float:
    """The tuned rate of `evidence-cbm`."""
    with gzip.open(HERE.parent / "evidence-cbm" / "tune.jsonl.gz", "rt") as file:
        rows = [row for row in map(json.loads, file) if (row["data"], row["method"]) == (name, "evidence-cbm")]
    return float(max(rows, key=lambda row: float(row["score"]))["rate"])


def tested(one: Tree, name: str, reader: str, seed: int, rate: float, work: Path, n: int) -> Tree:
    """A row of `family.tested`."""
    from conceptlens.recipes.parse import merge

    family.METHODS = {reader: merge({"method": {"name": "evidence-cbm"}}, READERS[reader])}
    family.LAYERED = tuple(READERS)
    return family.tested(one, name, reader, seed, rate, work, n, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--only", nargs="*", default=["IDRiD", "HAM10000", "cells off center", "shapes anywhere", "CUB"]
    )
    parser.add_argument("--readers", nargs="+", default=list(READERS)[1:], choices=READERS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--n", type=int, default=200, help="images whose maps are judged")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--tiny", action="store_true", help="few images, two epochs")
    given = parser.parse_args()
    began = time.monotonic()
    given.work.mkdir(parents=True, exist_ok=True)
    sets = {name: one for name, one in family.sets(given.work).items() if name in given.only}
    family.prepare(given.data, given.work, set(sets))
    family.LAYERED = tuple(READERS)
    jobs = []
    for seed in given.seeds:
        for name in given.only:
            one = family.small(sets[name]) if given.tiny else sets[name]
            store = family.store_of(one, name, "evidence-cbm", given.work)
            for reader in given.readers:
                arguments = (one, name, reader, seed, rate_of(name), given.work, given.n)
                jobs.append(Job((name, reader, seed), tested, arguments, store))
    left = given.seconds - (time.monotonic() - began)
    run_jobs(jobs, given.out, family.test_key, count=given.jobs, threads=1, seconds=left, told=family.test_line)


if __name__ == "__main__":
    main()
