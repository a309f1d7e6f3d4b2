"""evidence-cbm beside the family: class, concepts, corrections and places at once, frozen encoders.

    python evidence/evidence-cbm/run.py tune WORK --data FOLDER    a learning rate for each method, on validation images
    python evidence/evidence-cbm/run.py test WORK --data FOLDER    three seeds at the chosen rate, test images once

FOLDER holds the lab's image sets as they were published (IDRiD, HAM10000, CUB-200-2011), prepared by
`evidence/trust/prepare.py`. Every method has the same budget: three rates, one seed, chosen by the mean of the class's
balanced accuracy and the concepts' AUC. All have the same bottleneck (calibrated log-probabilities that never saw the
class, RandInt), so that only the reader differs. Rows go to WORK/tune.jsonl and WORK/rows.jsonl; what is there already
is not made again.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "trust"))

Tree = dict[str, Any]
SEQUENTIAL: Tree = {"randint": "uniform", "class_gradient": 0.0, "calibrate": True, "head_rate": 5.0}
METHODS: dict[str, Tree] = {
    "evidence-cbm": {"method": "evidence-cbm"},
    "evidence-cbm, last layer": {"method": "evidence-cbm", "encoder": {"layers": []}},  # reads what the others read
    "cbm": {"method": "cbm"},
    "explicd": {"method": "explicd"},
    "ivq-cbm": {"method": "ivq-cbm"},
    "sl-cbm": {"method": {"name": "sl-cbm", **SEQUENTIAL}},  # its head reads a layer norm of the scores
    "pf-cbm, points": {"method": {"name": "pf-cbm", "keypoints": "image"}},  # told where parts are: a reference
    "dot-cbm": {"method": "dot-cbm"},
    "additive-mil": {"method": "additive-mil"},
    "black-box": {"method": "black-box"},
}
LAYERED = ("evidence-cbm", "additive-mil")  # handed several layers
NO_CONCEPTS = ("additive-mil", "black-box")
FAITHFUL = ("evidence-cbm", "explicd", "cbm")
RATES = (3e-4, 1e-3, 3e-3)
SIZE, VIT, LITE = 112, "builtin/vit", "builtin/efficientnet-lite0"
LESIONS = {"microaneurysms": "MA", "haemorrhages": "HE", "hard exudates": "EX", "soft exudates": "SE"}
MASKS = "idrid/segmentation/2. All Segmentation Groundtruths"
JOIN = {"eye": ["left eye", "right eye"], "leg": ["left leg", "right leg"], "wing": ["left wing", "right wing"]}


def sets(work: Path) -> dict[str, Tree]:
    """Data sets: the recipe, what is judged where that is something else, the encoder, and methods that do not fit."""

    def shapes(**options: Any) -> Tree:
        return {"data": {"source": "shapes", "shapes": {"n": 2000, "size": SIZE, **options}}}

    lesions = {name: f"*/*/{{name}}_{short}.png" for name, short in LESIONS.items()}
    cub = {
        "boxes": str(work / "cub-boxes.csv"),
        "points": str(work / "cub-points.csv"),
        "sizes": str(work / "cub-sizes.csv"),
        "join": {"bill": ["beak"], **JOIN},
    }
    ham = {"masks": str(work / "ham" / "masks_200x150"), "mask_files": {"object": "{name}_segmentation.png"}}
    no_points = ("pf-cbm, points",)
    return {
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
            "without": no_points,
        },
        "CUB": {
            "recipe": {
                "data": {"source": str(work / "cub.csv"), "images": str(work / "cub"), "regions": cub},
                "concepts": "cub-112",
            },
            "encoder": LITE,
            "without": ("sl-cbm", "dot-cbm"),  # they need a text tower, or as many minutes as all others
        },
        "cells off center": {
            "recipe": {"data": {"source": "blood-cells-off-center"}},
            "encoder": VIT,
            "without": no_points,
        },
        "shapes anywhere": {"recipe": shapes(anywhere=True), "encoder": VIT, "without": ()},
        "HAM10000": {
            "recipe": {
                "data": {"source": str(work / "ham.csv"), "images": str(work / "ham"), "regions": ham},
                "concepts": "dermoscopy",
            },
            "encoder": VIT,
            "without": no_points,
        },
    }


def prepare(data: Path, work: Path) -> None:
    from prepare import cub, ham, idrid

    if not (work / "cub.csv").exists():
        idrid(data / "idrid_384", work)
        ham(data / "ham10000_200x150", data / "ham10000_split.csv", work, most=10**6)
        cub(data / "cub_144", data / "cub_original_sizes.csv", work, species=200, most=10**6)


def recipe_of(one: Tree, name: str, method: str, seed: int, rate: float, work: Path) -> Tree:
    from conceptlens.recipes.parse import merge

    encoder: Tree = {"name": one["encoder"], "train": "none"}
    encoder["store"] = str(work / f"tokens-{name.replace(' ', '-')}{'-layers' if method in LAYERED else ''}")
    if "size" in one:
        encoder["image_size"] = one["size"]
    own: Tree = {
        "regularizer": "none",
        "encoder": encoder,
        "seed": seed,
        "training": {"rank_every": 0, "compile": False, "epochs": "auto", "batch_size": 64, "learning_rate": rate},
    }
    return merge(merge(one["recipe"], own), METHODS[method])


def tuned(one: Tree, name: str, method: str, rate: float, work: Path) -> Tree:
    """One training whose validation images tell how good a rate is; no test image is read."""
    import conceptlens as cl
    from conceptlens.core.files import read_json
    from conceptlens.recipes.parse import merge

    started = time.process_time()
    out = work / "tune" / f"{name.replace(' ', '-')}-{method}-{rate:g}"
    recipe = merge(recipe_of(one, name, method, 100, rate, work), {"metrics": {"test": False}})
    cl.train(recipe, out=out, overwrite=True, quiet=True)
    val = read_json(out / "metrics.json")["splits"]["val"]
    numbers = [val["class"]["balanced_accuracy"]] + ([] if method in NO_CONCEPTS else [val["concept"]["auc"]])
    row = {"data": name, "method": method, "rate": rate, "score": sum(numbers) / len(numbers), "numbers": numbers}
    return {**row, "seconds": round(time.process_time() - started)}


def places(run: Any, judged: Tree | None, n: int) -> Tree:
    """Where the maps lie, of the value that the model reads: numbers of every map, and the verdict."""
    from conceptlens.evaluation.localization.localize import localize_run

    found = localize_run(run, data=judged, n=n).to_dict()
    return {key: found[key] for key in ("images", "grid", "targets", "numbers", "verdict", "map_verdicts")}


def tested(one: Tree, name: str, method: str, seed: int, rate: float, work: Path, n: int, faithful: int) -> Tree:
    """Train one model and examine it on test images."""
    import conceptlens as cl
    from conceptlens.core.files import read_json
    from conceptlens.evaluation.faithfulness.faithfulness import faithfulness_run
    from conceptlens.evaluation.trust import intervene_run
    from conceptlens.runs.opened import OpenedRun

    started = time.process_time()
    out = work / "runs" / f"{name.replace(' ', '-')}-{method}-{seed}"
    if not (out / "model" / "model.json").exists():
        cl.train(recipe_of(one, name, method, seed, rate, work), out=out, overwrite=True, quiet=True)
    trained = time.process_time() - started
    run = OpenedRun.open(out)
    test = read_json(out / "metrics.json")["splits"]["test"]
    row: Tree = {"data": name, "encoder": one["encoder"], "method": method, "seed": seed, "rate": rate}
    row["class"] = {key: test["class"].get(key) for key in ("accuracy", "balanced_accuracy")}
    if method not in NO_CONCEPTS:
        row["concept"] = {key: test["concept"].get(key) for key in ("auc", "auc_within_class", "balanced_accuracy")}
        interventions = intervene_run(run, split="test", orders=("chance",), resamples=200)
        row["corrections"] = {"verdict": interventions.verdict.model_dump(), **interventions.numbers}
        row["places"] = places(run, one.get("judged"), n)
    if method in FAITHFUL and seed == 0 and faithful:
        row["faithfulness"] = faithfulness_run(run, data=one.get("judged"), n=faithful).to_dict()
    row["seconds"] = [round(trained), round(time.process_time() - started)]
    return row


def best_rate(rows: list[Tree], name: str, method: str) -> float:
    found = [row for row in rows if (row["data"], row["method"]) == (name, method)]
    if len(found) < len(RATES):
        raise SystemExit(f"{name}, {method}: tune its rate first")
    return float(max(found, key=lambda row: row["score"])["rate"])


def read(file: Path) -> list[Tree]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def append(file: Path, row: Tree) -> None:
    with file.open("a") as lines:
        lines.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tune", "test", "both"))
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="data sets and methods that contain this; several by |")
    parser.add_argument("--n", type=int, default=200, help="images whose maps are judged")
    parser.add_argument("--faithful", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    prepare(options.data, options.work)
    import torch

    torch.set_num_threads(options.threads)
    tune, rows = options.work / "tune.jsonl", options.work / "rows.jsonl"
    for name, one in sets(options.work).items():
        for method in METHODS:
            words = f"{name} / {method} /"
            if method in one["without"] or not any(word in words for word in options.only.split("|")):
                continue
            done = {(row["data"], row["method"], row["rate"]) for row in read(tune)}
            for rate in RATES if options.what != "test" else ():
                if (name, method, rate) not in done:
                    append(tune, row := tuned(one, name, method, rate, options.work))
                    print(words, rate, row["numbers"], row["seconds"], flush=True)
            done = {(row["data"], row["method"], row["seed"]) for row in read(rows)}
            for seed in range(options.seeds) if options.what != "tune" else ():
                if (name, method, seed) not in done:
                    rate = best_rate(read(tune), name, method)
                    row = tested(one, name, method, seed, rate, options.work, options.n, options.faithful)
                    append(rows, row)
                    maps = row.get("places", {}).get("numbers", {})
                    print(words, seed, row["seconds"], row["class"], row.get("concept"), maps, flush=True)
