"""evidence-cbm beside the family: class, concepts, corrections and places at once, frozen encoders, test images once.

    python evidence/evidence-cbm/run.py WORK --data FOLDER [--seeds N] [--only WORD] [--threads N]

FOLDER holds the lab's image sets as they were published (IDRiD, CUB-200-2011), prepared by `evidence/trust/prepare.py`.
Presets as they come: all have the same bottleneck (calibrated log-probabilities that never saw the class, RandInt), so
that only the reader differs. Rows go to WORK/rows.jsonl; what is there already is not made again.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "trust"))

Tree = dict[str, Any]
METHODS: dict[str, Tree] = {
    "evidence-cbm": {"method": "evidence-cbm"},
    "evidence-cbm, last layer": {"method": "evidence-cbm", "encoder": {"layers": []}},  # reads what the others read
    "cbm": {"method": "cbm"},
    "explicd": {"method": "explicd"},
    "ivq-cbm": {"method": "ivq-cbm"},
    "dot-cbm": {"method": "dot-cbm"},
    "sl-cbm": {"method": "sl-cbm"},
    "pf-cbm, points": {"method": {"name": "pf-cbm", "keypoints": "image"}},  # told where parts are: a reference
    "black-box": {"method": "black-box"},
}
FAITHFUL = ("evidence-cbm", "explicd", "cbm")
SIZE, VIT, LITE = 112, "builtin/vit", "builtin/efficientnet-lite0"
LESIONS = {"microaneurysms": "MA", "haemorrhages": "HE", "hard exudates": "EX", "soft exudates": "SE"}
MASKS = "idrid/segmentation/2. All Segmentation Groundtruths"
JOIN = {"eye": ["left eye", "right eye"], "leg": ["left leg", "right leg"], "wing": ["left wing", "right wing"]}


def sets(work: Path) -> dict[str, Tree]:
    """Data sets: the recipe, what is judged where that is something else, and how many images."""

    def shapes(**options: Any) -> Tree:
        return {"data": {"source": "shapes", "shapes": {"n": 2000, "size": SIZE, **options}}}

    lesions = {name: f"*/*/{{name}}_{short}.png" for name, short in LESIONS.items()}
    cub = {
        "boxes": str(work / "cub-boxes.csv"),
        "points": str(work / "cub-points.csv"),
        "sizes": str(work / "cub-sizes.csv"),
        "join": {"bill": ["beak"], **JOIN},
    }
    return {
        "shapes": {"recipe": shapes(), "encoder": VIT},
        "shapes anywhere": {"recipe": shapes(anywhere=True), "encoder": VIT},
        "cells off center": {"recipe": {"data": {"source": "blood-cells-off-center"}}, "encoder": VIT},
        "IDRiD": {
            "recipe": {
                "data": {"source": str(work / "idrid.csv"), "images": str(work / "idrid"), "task": "ordinal"},
                "concepts": "fundus",
            },
            "judged": {
                "source": str(work / "lesions.csv"),
                "images": str(work / "idrid"),
                "regions": {"masks": str(work / MASKS), "mask_files": lesions},
            },
            "encoder": VIT,
            "size": 224,
        },
        "CUB": {
            "recipe": {
                "data": {"source": str(work / "cub.csv"), "images": str(work / "cub"), "regions": cub},
                "concepts": "cub-112",
            },
            "encoder": LITE,
        },
    }


def prepare(data: Path, work: Path) -> None:
    from prepare import cub, idrid

    if not (work / "idrid.csv").exists():
        idrid(data / "idrid_384", work)
        cub(data / "cub_144", data / "cub_original_sizes.csv", work)


def recipe_of(one: Tree, name: str, method: str, seed: int, work: Path) -> Tree:
    from conceptlens.recipes.parse import merge

    layered = method == "evidence-cbm"  # the only one that is handed several layers
    encoder: Tree = {"name": one["encoder"], "train": "none"}
    encoder["store"] = str(work / f"tokens-{name.replace(' ', '-')}{'-layers' if layered else ''}")
    if "size" in one:
        encoder["image_size"] = one["size"]
    own: Tree = {
        "regularizer": "none",
        "encoder": encoder,
        "seed": seed,
        "training": {"rank_every": 0, "compile": False},
    }
    return merge(merge(one["recipe"], own), METHODS[method])


def places(run: Any, judged: Tree | None, n: int) -> Tree:
    """Where the maps lie, of the value that the model reads: numbers of every map, and the verdict."""
    from conceptlens.evaluation.localization.localize import localize_run

    found = localize_run(run, data=judged, n=n).to_dict()
    return {key: found[key] for key in ("images", "grid", "targets", "numbers", "verdict", "map_verdicts")}


def work_on(one: Tree, name: str, method: str, seed: int, work: Path, n: int, faithful: int) -> Tree:
    """Train one model and examine it."""
    import conceptlens as cl
    from conceptlens.core.files import read_json
    from conceptlens.evaluation.faithfulness.faithfulness import faithfulness_run
    from conceptlens.evaluation.trust import intervene_run
    from conceptlens.runs.opened import OpenedRun

    started = time.monotonic()
    out = work / "runs" / f"{name.replace(' ', '-')}-{method}-{seed}"
    if not (out / "model" / "model.json").exists():
        cl.train(recipe_of(one, name, method, seed, work), out=out, overwrite=True, quiet=True)
    trained = time.monotonic() - started
    run = OpenedRun.open(out)
    test = read_json(out / "metrics.json")["splits"]["test"]
    row: Tree = {"data": name, "encoder": one["encoder"], "method": method, "seed": seed}
    row["class"] = {key: test["class"].get(key) for key in ("accuracy", "balanced_accuracy")}
    if method != "black-box":
        row["concept"] = {key: test["concept"].get(key) for key in ("auc", "auc_within_class", "balanced_accuracy")}
        interventions = intervene_run(run, split="test", orders=("chance",), resamples=200)
        row["corrections"] = {"verdict": interventions.verdict.model_dump(), **interventions.numbers}
        row["places"] = places(run, one.get("judged"), n)
    if method in FAITHFUL and seed == 0 and faithful:
        row["faithfulness"] = faithfulness_run(run, data=one.get("judged"), n=faithful).to_dict()
    row["seconds"] = [round(trained), round(time.monotonic() - started)]
    return row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--only", default="", help="data sets and methods that contain this; several by |")
    parser.add_argument("--n", type=int, default=200, help="images whose maps are judged")
    parser.add_argument("--faithful", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    prepare(options.data, options.work)
    import torch

    torch.set_num_threads(options.threads)
    rows = options.work / "rows.jsonl"
    lines = rows.read_text().splitlines() if rows.exists() else []
    done = {(row["data"], row["method"], row["seed"]) for row in map(json.loads, lines)}
    until = time.monotonic() + options.seconds
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        for name, one in sets(options.work).items():
            for method in METHODS:
                words = f"{name} / {method} / {seed}"
                if (name, method, seed) in done or not any(word in words for word in options.only.split("|")):
                    continue
                if time.monotonic() > until:
                    sys.exit("time is up; call again to go on")
                try:
                    row = work_on(one, name, method, seed, options.work, options.n, options.faithful)
                except Exception as error:
                    print(words, "failed:", repr(error)[:300], flush=True)
                    continue
                with rows.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                maps = row.get("places", {}).get("numbers", {})
                print(words, row["seconds"], row["class"]["accuracy"], row.get("concept"), maps, flush=True)
