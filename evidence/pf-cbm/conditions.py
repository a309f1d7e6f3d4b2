"""Table 2's conditions where labels belong to the image: drawn creatures, all rows alike, with and without entropy.

    python evidence/pf-cbm/conditions.py [--images 1200] [--seeds 0 1 2] [--seconds 300]

CUB's rows were trained with attributes of the class, and pseudo-point rows with another weight of the entropy than the
row without points. Here every row has the same settings, and the entropy's weight is 0 or 0.001 in all of them. The
prior lies in the frame of the image, as the paper's; creatures may stand off center and face either way. Tokens of the
frozen built-in encoder. `conditions.jsonl` gets a line a training, as it ends; what is there is not made again.
"""

import argparse
import json
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from bank import make_bank, open_labels, open_places
from lab import train
from score import blind, evaluate

from conceptlens.core.files import read_text, read_yaml, stored
from conceptlens.recipes.parse import load_recipe

HERE = Path(__file__).parent
FILE, BLIND = HERE / "conditions.jsonl", "blind"
WORDS = {
    "no_bbox_pca": "points of every image",
    "no_bbox_spatial_prior": "prior",
    "no_bbox_no_kp": "neither",
    "pseudo_kp": "pseudo points",
    "pseudo_kp_tight": "pseudo points, tight",
}
ROWS = tuple(WORDS)
ENTROPY = (0.0, 0.001)
FRACTION = 0.01  # of the training images have points, for pseudo points
SIGMA = 2.0  # patches, of a grid of 12: the paper's share of 5 of 32


def recipe_of(images: int) -> dict[str, Any]:
    places = {"name": "places", "epochs": 10, "train": ["model.grounding", "model.score"], "learning_rate": 1.0e-2}
    return {
        "data": {"source": "shapes", "shapes": {"n": images}},
        "encoder": {"name": "builtin/vit", "image_size": 96},
        "method": {"name": "pf-cbm", "sigma": SIGMA, "inner": 128, "hidden": 64},
        "training": {
            "epochs": 10,
            "batch_size": 32,
            "learning_rate": 3.0e-3,
            "loss": {"concept": "group"},
            "stages": [{**places, "class_weight": 0.0, "schedule": "constant"}, {"name": "all", "train": ["model"]}],
        },
        "out": "runs/unused",
    }


def known_rows(file: Path = FILE) -> list[dict[str, Any]]:
    """Rows of finished trainings, packed or as they come."""
    place = file if file.exists() else stored(file)
    return [json.loads(line) for line in read_text(place).splitlines()] if place.exists() else []


def page_table(rows: list[dict[str, Any]]) -> str:
    """Mean ± standard deviation over seeds, and maps that see no image."""
    head = ["", "entropy", "center within one patch", "next cell", "other parts' maps", "top-1", "concept AUC"]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    measures = ("pointing_patch", "pointing_cells", "pointing_other", "top1", "concept_auc")
    for condition, weight in product(ROWS, ENTROPY):
        mine = [row for row in rows if (row["condition"], row.get("entropy_weight")) == (condition, weight)]
        cells = []
        for measure in measures:
            values = [row[measure] for row in mine]
            cells.append(f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else "–")
        lines.append(f"| {WORDS[condition]} (`{condition}`) | {weight:g} | {' | '.join(cells)} |")
    for row in (row for row in rows if row["condition"] == BLIND):
        for name in ("blind", "mean region"):
            found = row["maps"][name]
            values = [found[measure] for measure in measures[:3]]
            lines.append(f"| sees no image: {name} | | {' | '.join(f'{value:.3f}' for value in values)} | | |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1200)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing new after so many")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    begun = time.monotonic()
    done = {(row["condition"], row.get("entropy_weight"), row.get("seed")) for row in known_rows()}
    plan = read_yaml(HERE / "plan.yaml")
    assert isinstance(plan, dict)
    tree = recipe_of(given.images)
    recipe = load_recipe(tree)
    source, splits, places = open_places(recipe)
    bank = make_bank("shapes", source, splits, recipe, places, given.device)
    labels = open_labels(recipe)[1]
    with FILE.open("a", encoding="utf-8") as file:

        def keep(row: dict[str, Any]) -> None:
            file.write(json.dumps(row) + "\n")
            file.flush()
            print(json.dumps(row), flush=True)

        for seed in given.seeds:
            for condition in ROWS:
                for weight in ENTROPY:
                    if (condition, weight, seed) in done or time.monotonic() - begun > given.seconds:
                        continue
                    started = time.process_time()
                    options = {
                        key: value for key, value in plan["rows"][condition].items() if key != "keypoint_fraction"
                    }
                    if options.get("keypoints") == "pseudo":
                        options["keypoint_fraction"] = FRACTION
                    method = {**tree["method"], **options, "entropy_weight": weight}
                    made = load_recipe({**tree, "method": method, "seed": seed})
                    trained = train(bank, labels, made)
                    found = evaluate(trained.model, bank, labels, "test")[0]
                    pairs = found["places"]["pairs"]
                    keep(
                        {
                            "condition": condition,
                            "entropy_weight": weight,
                            "seed": seed,
                            "images": {"train": len(splits.train), "test": len(splits.test)},
                            "grid": list(bank.grid),
                            **{name: round(float(value), 5) for name, value in pairs.items() if "pointing" in name},
                            "apart": round(float(found["places"]["apart"]), 4),
                            "concept_auc": round(float(found["auc"]), 5),
                            "top1": round(float(found["top1"]), 5),
                            "seconds": round(time.process_time() - started, 1),
                        }
                    )
                    if (BLIND, None, None) not in done:
                        done.add((BLIND, None, None))
                        still = blind(bank, trained.model.part_names, SIGMA)
                        keep({"condition": BLIND, "maps": {name: each["pairs"] for name, each in still.items()}})


if __name__ == "__main__":
    main()
