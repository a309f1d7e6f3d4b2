"""How long small data must be trained: trainings of several lengths, judged on validation.

    python evidence/epochs-auto/run.py lengths --store FOLDER     # what `training.epochs: auto` rests on
    python evidence/epochs-auto/run.py defaults --store FOLDER    # ivq-cbm before and since

Tokens of the frozen blocks are computed once into the store. What is done is kept: a second call goes on.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import conceptlens as cl
from conceptlens.recipes.parse import merge

HERE = Path(__file__).parent
Tree = dict[str, Any]
DATA: dict[str, Tree] = {
    "blood cells, 28 training images": {
        "source": "blood-cells",
        "limit": 28,
    },  # what a folder of 40 leaves for training
    "blood cells, 90 training images": {"source": "blood-cells", "limit": 90},
    "blood cells, all built-in": {"source": "blood-cells"},
}
METHODS: dict[str, Tree] = {
    "cbm": {"method": "cbm", "training": {"batch_size": 64, "learning_rate": 1e-4}},
    "cbm, rate 1e-3": {"method": "cbm", "training": {"batch_size": 64, "learning_rate": 1e-3}},
    "ivq-cbm": {"method": "ivq-cbm", "training": {"learning_rate": 1e-3, "loss": {"concept_weight": 3}}},
}
CURVE = ("class.balanced_accuracy", "concept.balanced_accuracy", "concept.auc")
STEPS = (60, 200, 600, 1500)
OLD: Tree = {
    "regularizer": {"name": "ivq", "weight": 1.0},
    "training": {"epochs": 8, "warmup": 0.5, "learning_rate": 1e-4, "loss": {"concept_weight": 1.0}},
}
SINCE: Tree = {
    "regularizer": {"name": "ivq", "weight": 0.01},
    "training": {"epochs": 8, "warmup": 0.5, "learning_rate": 1e-3, "loss": {"concept_weight": 3.0}},
}
STILL = {"regularizer": "none"}  # a frozen encoder has nothing to regularize


def measure(recipe: Tree, seed: int) -> Tree:
    """Train once; what validation says of the chosen epoch."""
    fixed = {
        "data": {"split": {"seed": seed}},
        "training": {"rank_every": 0},
        "metrics": {"bootstrap": 0, "test": False, "rank_images": 0},
        "seed": seed,
        "out": f"runs/epochs-auto-{os.getpid()}",
    }
    started = time.monotonic()
    run = cl.train(merge(recipe, fixed), overwrite=True, quiet=True)
    val = json.loads((run.path / "metrics.json").read_text())["splits"]["val"]
    lines = [line for line in run.read_history() if line["split"] == "val"]
    return {
        "class_balanced_accuracy": val["class"]["balanced_accuracy"],
        "concept_balanced_accuracy": val["concept"]["balanced_accuracy"],
        "concept_auc": val["concept"]["auc"],
        "groups_at_chance": val["concept"]["groups_at_chance"]["count"],
        "groups": val["concept"]["groups_at_chance"]["of"],
        "images": val["class"]["n"],
        "epochs": lines[-1]["epoch"],
        "steps": lines[-1]["step"],
        "best_epoch": max(lines[1:], key=lambda line: (line["class.balanced_accuracy"], line["concept.auc"]))["epoch"],
        "seconds": round(time.monotonic() - started, 1),
        "curve": [[line["epoch"], *(round(line[key], 4) for key in CURVE)] for line in lines],
    }


def lengths(store: str) -> dict[str, Tree]:
    """By name: a data set, a method and a number of steps."""
    jobs: dict[str, Tree] = {}
    for data, source in DATA.items():
        train_images = source.get("limit", 1200)  # or a little fewer: `steps` says what was done
        for method, settings in METHODS.items():
            for steps in STEPS:
                per_epoch = max(1, train_images // settings["training"].get("batch_size", 32))
                epochs = -(-steps // per_epoch)
                every = {"epochs": epochs, "validate_every": max(1, epochs // 30)}
                encoder = {"train": "none", "store": f"{store}-{source['source']}"}
                recipe = merge({"data": source, "encoder": encoder, **STILL, "training": every}, settings)
                jobs[f"{data} | {method} | {steps}"] = recipe
    return jobs


def defaults(store: str) -> dict[str, Tree]:
    """Before and since, behind a frozen encoder and with the last block learning."""
    jobs: dict[str, Tree] = {}
    for name, settings in (("before", OLD), ("since", SINCE)):
        base = {"data": DATA["blood cells, all built-in"], "method": "ivq-cbm"}
        frozen = merge({**base, "encoder": {"train": "none", "store": f"{store}-blood-cells"}}, {**settings, **STILL})
        block = merge({**base, "encoder": {"train": 1, "store": f"{store}-1"}}, settings)
        jobs |= {f"frozen tokens | {name}": frozen, f"last block | {name}": block}
    return jobs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("lengths", "defaults"))
    parser.add_argument("--store", required=True)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    path = HERE / f"{args.what}.json"
    rows: Tree = json.loads(path.read_text()) if path.exists() else {}
    jobs = {"lengths": lengths, "defaults": defaults}[args.what](args.store)
    for seed in range(args.seeds):
        for name, recipe in jobs.items():
            key = f"{name} | seed {seed}"
            if key not in rows and args.only in name:
                rows[key] = measure(recipe, seed)
                print(key, rows[key], flush=True)
                path.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
