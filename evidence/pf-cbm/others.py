"""Table 4 and the order of interventions on drawn creatures with labels of each image.

    python evidence/pf-cbm/others.py WORK [--images 1200] [--seeds 0 1 2] [--seconds 600]

PF-CBM with its prior, with points of every image and as printed, beside three methods whose concepts have maps of their
own: presets as they come, nothing tuned, the same frozen tokens of builtin/vit, images and split. Places: a map's peak
whose center lies within one patch of the part, a peak in the part's cell or next to it, and lift on the part.
Corrections: areas of the curves as groups are told the truth, and as they are told wrong answers, in the order of
influence, of uncertainty and of chance.
`others.jsonl` gets a line a training; what is there is not made again.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import conceptlens as cl
from conceptlens.core.files import read_text, stored
from conceptlens.evaluation.interventions.order import Policy

HERE = Path(__file__).parent
FILE = HERE / "others.jsonl"
PLACES = ("pointing_patch", "pointing_cells", "lift")
ORDERS: tuple[Policy, ...] = ("influence", "uncertainty", "chance")
STAGES = [
    {"name": "places", "epochs": 15, "train": ["model.grounding", "model.score"], "learning_rate": 1.0e-2,
     "class_weight": 0.0, "schedule": "constant"},
    {"name": "all", "train": ["model"]},
]  # fmt: skip
PARTS: dict[str, Any] = {"sigma": 2.0, "inner": 128, "hidden": 64}
STAGED: dict[str, Any] = {"epochs": 10, "learning_rate": 3.0e-3, "stages": STAGES}
METHODS: dict[str, dict[str, Any]] = {
    "pf-cbm, prior": {"method": {"name": "pf-cbm", **PARTS}, "training": STAGED},
    "pf-cbm, points": {"method": {"name": "pf-cbm", "keypoints": "image", "prior": False, **PARTS}, "training": STAGED},
    "pf-cbm-as-printed": {"method": {"name": "pf-cbm-as-printed", **PARTS}, "training": STAGED},
    "evidence-cbm": {"method": "evidence-cbm", "training": {"epochs": 20}},
    "explicd": {"method": "explicd", "training": {"epochs": 20}},
    "dot-cbm": {"method": "dot-cbm", "training": {"epochs": 20}},
}


def known_rows(file: Path = FILE) -> list[dict[str, Any]]:
    place = file if file.exists() else stored(file)
    return [json.loads(line) for line in read_text(place).splitlines()] if place.exists() else []


def recipe_of(method: str, images: int, seed: int) -> dict[str, Any]:
    mine = METHODS[method]
    return {
        "data": {"source": "shapes", "shapes": {"n": images}},
        "encoder": {"name": "builtin/vit", "image_size": 96, "store": "run"},
        "seed": seed,
        "method": mine["method"],
        "training": {"batch_size": 32, "loss": {"concept": "group"}, **mine["training"]},
    }


def measured(run: Path) -> dict[str, Any]:
    """Class, concepts, places and the areas of corrections of a run."""
    metrics = json.loads((run / "metrics.json").read_text("utf-8"))["splits"]["test"]
    places = cl.localize(run, maps=("own",)).model_dump()["targets"]["part"]["maps"]
    curves = {curve.policy: curve for curve in cl.interventions(run, order=ORDERS, resamples=200).curves}
    return {
        "top1": metrics["class"]["accuracy"],
        "concept_auc": metrics["concept"]["auc"],
        "places": {name: {key: found[key]["value"] for key in PLACES} for name, found in places.items()},
        "orders": {name: {"right": curves[name].area.value, "wrong": curves[name].wrong_area.value} for name in ORDERS},
    }


def page_table(rows: list[dict[str, Any]]) -> str:
    return json.dumps(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--images", type=int, default=1200)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing new after so many")
    parser.add_argument("--out", type=Path, default=FILE)
    given = parser.parse_args()
    begun = time.monotonic()
    done = {(row["method"], row["seed"]) for row in known_rows(given.out)}
    for seed in given.seeds:
        for method in given.methods:
            if (method, seed) in done or time.monotonic() - begun > given.seconds:
                continue
            started, run = time.process_time(), given.work / f"{method.replace(', ', '-')}-{seed}"
            cl.train(recipe_of(method, given.images, seed), out=run, overwrite=True, quiet=True)
            trained = round(time.process_time() - started, 1)
            row = {"method": method, "seed": seed, "images": given.images, **measured(run), "seconds": trained}
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
