"""The whole examination of every preset: `conceptlens trust` of each, as published and as ours.

    python evidence/trust/verdicts.py WORK [--seeds N] [--only WORD] [--data "cells|shapes anywhere"]

Built-in blood cells (500 test images; cell and nucleus masks) and drawn creatures anywhere in the picture (parts known
exactly), presets as they come but for a frozen encoder and no regularizer, which would have nothing to act on. Rows go
to WORK/verdicts.jsonl; what is there already is not made again.
"""

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

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
MAPS = ("evidence-cbm", "explicd", "ivq-cbm", "pf-cbm")
LAYERS = {"evidence-cbm": "-layers", "mvp-cbm": "-all"}  # presets that read the same layers share a token store


def examine(name: str, preset: str, seed: int, work: Path) -> Tree:
    import conceptlens as cl
    from conceptlens.core.files import read_json
    from conceptlens.recipes.parse import merge

    started = time.process_time()
    out = work / "runs" / f"{name.replace(' ', '-')}-{preset}-{seed}"
    store = work / f"tokens-{name.replace(' ', '-')}{LAYERS.get(preset, '')}"
    own: Tree = {
        "method": preset,
        "regularizer": "none",
        "encoder": {"name": "builtin/vit", "train": "none", "store": str(store)},
        "training": {"rank_every": 0, "compile": False},
        "seed": seed,
    }
    model = cl.train(merge(DATA[name], own), out=out, overwrite=True, quiet=True)
    trained = time.process_time() - started
    maps = preset in MAPS and seed == 0  # faithfulness costs more than everything else together
    found = model.trust(without=() if maps else ("faithfulness",))
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
        "seconds": [round(trained), round(time.process_time() - started)],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--only", default="", help="presets that contain this; several by |")
    parser.add_argument("--data", default="", help="data sets, several by |")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(options.threads)
    options.work.mkdir(parents=True, exist_ok=True)
    rows = options.work / "verdicts.jsonl"
    lines = rows.read_text().splitlines() if rows.exists() else []
    done = {(row["data"], row["preset"], row["seed"]) for row in map(json.loads, lines)}
    for seed in range(options.seeds):
        for name in DATA:
            for preset in (*OURS, *PUBLISHED):
                wanted = any(word in f"/{preset}/" for word in options.only.split("|"))
                if (name, preset, seed) in done or not wanted or (options.data and name not in options.data.split("|")):
                    continue
                row = examine(name, preset, seed, options.work)
                with rows.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                outcomes = {side: verdict["outcome"] for side, verdict in row["verdicts"].items()}
                print(name, preset, seed, row["seconds"], row["class"]["accuracy"], outcomes, flush=True)
