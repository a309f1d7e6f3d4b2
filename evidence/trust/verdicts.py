"""The whole examination of every preset: `conceptlens trust` of each, as published and as ours.

    python evidence/trust/verdicts.py WORK [--seeds N] [--jobs N] [--only WORD] [--data "cells|shapes anywhere"]

Built-in blood cells (500 test images; cell and nucleus masks) and drawn creatures anywhere in the picture (parts known
exactly), presets as they come but for a frozen encoder and no regularizer, which would have nothing to act on. Rows go
to WORK/verdicts.jsonl; what is there already is not made again.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from jobs import Job, run_jobs  # a neighbor

Tree = dict[str, Any]
DATA: dict[str, Tree] = {
    "cells": {"data": "blood-cells"},
    "shapes anywhere": {"data": {"source": "shapes", "shapes": {"n": 2000, "size": 112, "anywhere": True}}},
}
OURS = ("evidence-cbm", "cbm", "coop-cbm", "explicd", "ivq-cbm", "pf-cbm", "dot-cbm", "mvp-cbm")
PUBLISHED = (
    "cbm-released",
    "cbm-sequential",
    "cbm-independent",
    "coop-cbm-released",
    "cem",
    "ivq-cbm-as-printed",
    "pf-cbm-as-printed",
    "sl-cbm",
    "pcbm",
    "pcbm-h",
    "pcbm-text",
    "lf-cbm",
    "labo",
    "clear",
)
MAPS = ("evidence-cbm", "explicd", "ivq-cbm", "cbm")  # whose maps are tested for faithfulness
LAYERS = {"evidence-cbm": "-layers", "mvp-cbm": "-all"}  # presets that read the same layers share a token store


def store_of(name: str, preset: str, work: Path) -> str:
    return str(work / f"tokens-{name.replace(' ', '-')}{LAYERS.get(preset, '')}")


def examine(name: str, preset: str, seed: int, work: Path) -> Tree:
    import conceptlens as cl
    from conceptlens.core.files import read_json
    from conceptlens.recipes.parse import merge

    started = time.monotonic()
    out = work / "runs" / f"{name.replace(' ', '-')}-{preset}-{seed}"
    own: Tree = {
        "method": preset,
        "regularizer": "none",
        "encoder": {"name": "builtin/vit", "train": "none", "store": store_of(name, preset, work)},
        "training": {"rank_every": 0, "compile": False},
        "seed": seed,
    }
    model = cl.train(merge(DATA[name], own), out=out, overwrite=True, quiet=True)
    trained = time.monotonic() - started
    maps = preset in MAPS and seed == 0  # faithfulness costs more than everything else together
    found = model.trust(n=100, without=() if maps else ("faithfulness",))
    test = read_json(out / "metrics.json")["splits"]["test"]
    shutil.rmtree(out)
    return {
        "data": name,
        "preset": preset,
        "seed": seed,
        "class": {key: test["class"][key] for key in ("accuracy", "balanced_accuracy")},
        "concept": {key: test["concept"].get(key) for key in ("auc", "auc_within_class", "balanced_accuracy")},
        "verdicts": {side: verdict.model_dump() for side, verdict in found.verdicts.items()},
        "numbers": found.numbers,
        "seconds": [round(trained), round(time.monotonic() - started)],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="presets that contain this; several by |")
    parser.add_argument("--data", default="", help="data sets, several by |")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    jobs = [
        Job((name, preset, seed), examine, (name, preset, seed, options.work), store_of(name, preset, options.work))
        for seed in range(options.seeds)
        for name in DATA
        for preset in (*OURS, *PUBLISHED)
        if any(word in f"/{preset}/" for word in options.only.split("|"))
        and (not options.data or name in options.data.split("|"))
    ]
    run_jobs(
        jobs,
        options.work / "verdicts.jsonl",
        lambda row: (row["data"], row["preset"], row["seed"]),
        count=options.jobs,
        threads=options.threads,
        seconds=options.seconds,
        told=lambda row: f"{row['seconds']} {[verdict['outcome'] for verdict in row['verdicts'].values()]}",
    )
