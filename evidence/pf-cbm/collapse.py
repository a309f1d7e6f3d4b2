"""When do part queries become those of parts? It depends on the labels, and on the prior's frame: a look at `shapes`.

    python evidence/pf-cbm/collapse.py --json FILE [--images 400] [--epochs 12 6] [--entropy 0.001 0.01] [--seeds 0 1 2]

The paper argues that without a prior or points nothing tells queries apart. With fixed routing that holds only if the
labels do not tell them apart. Drawn creatures have labels of each image; here they are used as they are, and after each
image got those of its class (the most frequent value of each axis), as CUB's attributes are used. Without a prior, with
the paper's in the frame of the image, and with one in a frame that moves and turns with the creature, which may stand
anywhere and face either way. `pointing`: peaks within one patch of the part; `pointing_other`: the same of the other
parts' maps, which is what a query reaches that has not become its part's; `apart`: patches between the attention
centers of two parts. Tokens of the frozen built-in encoder; minutes on two cores, seconds on a GPU.
"""

import argparse
import json
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from bank import Labels, make_bank, open_labels, open_places
from lab import train
from score import blind, evaluate

from conceptlens.core.files import write_json
from conceptlens.recipes.parse import load_recipe

PRIORS: dict[str, dict[str, Any]] = {
    "no prior": {"prior": False},
    "prior in the image": {"prior": True},
    "prior in the creature": {"prior": True, "pose": "mirrored"},
}
SPECIALIZED = 0.1  # pointing beyond that of the other parts' maps


def by_class(labels: Labels, classes: int) -> Labels:
    """Every image with the most frequent value of each axis in its class."""
    examples, table = labels.examples, []
    for number in range(classes):
        share = (examples.concepts[examples.labels == number] == 1).mean(0)
        row = np.zeros(len(share), dtype=np.int8)
        for group in labels.concepts.groups:
            part = share[group.concepts]
            row[group.concepts] = (np.arange(len(part)) == part.argmax()) if len(part) > 1 else part >= 0.5
        table.append(row)
    return Labels(labels.concepts, replace(examples, concepts=np.stack(table)[examples.labels]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--epochs", type=int, nargs=2, default=[12, 6], help="of the first stage, and of the second")
    parser.add_argument("--entropy", type=float, nargs="*", default=[0.001, 0.01], help="weights")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    given = parser.parse_args()
    tree: dict[str, Any] = {
        "data": {"source": "shapes", "shapes": {"n": given.images}},
        "encoder": {"name": "builtin/vit", "image_size": 96},
        "method": {"name": "pf-cbm", "sigma": 2.0, "inner": 128, "hidden": 64},
        "training": {
            "epochs": given.epochs[1],
            "batch_size": 32,
            "learning_rate": 3.0e-3,
            "loss": {"concept": "group"},
            "stages": [
                {
                    "name": "places",
                    "epochs": given.epochs[0],
                    "train": ["model.grounding", "model.score"],
                    "learning_rate": 1.0e-2,
                    "class_weight": 0.0,
                    "schedule": "constant",
                },
                {"name": "joint", "train": ["model"]},
            ],
        },
        "out": "runs/unused",
    }
    recipe = load_recipe(tree)
    source, splits, known = open_places(recipe)
    bank = make_bank("shapes", source, splits, recipe, known, given.device)
    own = open_labels(recipe)[1]
    sets = {"of each image": own, "of the class": by_class(own, len(source.classes))}
    true = known.points[splits.test]
    seen = known.seen[splits.test]
    away = np.linalg.norm(true[:, :, None] - true[:, None], axis=-1)
    both = seen[:, :, None] & seen[:, None] & ~np.eye(seen.shape[1], dtype=bool)
    parts_apart = float(away[both].mean())
    rows: list[dict[str, Any]] = []
    for weight, (words, labels), (name, options) in product(given.entropy, sets.items(), PRIORS.items()):
        for seed in given.seeds:
            begun = time.perf_counter()
            method = {"name": "pf-cbm", "entropy_weight": weight, **options}
            trained = train(bank, labels, load_recipe(tree, {"method": method, "seed": seed}))
            found = evaluate(trained.model, bank, labels, "test")[0]
            pairs = found["places"]["pairs"]
            rows.append(
                {
                    "entropy_weight": weight,
                    "labels": words,
                    "prior": name,
                    "seed": seed,
                    "pointing": pairs["pointing_patch"],
                    "pointing_other": pairs["pointing_other"],
                    "apart": found["places"]["apart"],
                    "concept_auc": found["auc"],
                    "top1": found["top1"],
                    "seconds": time.perf_counter() - begun,
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    summary = {}
    for weight, words, name in product(given.entropy, sets, PRIORS):
        key = {"entropy_weight": weight, "labels": words, "prior": name}
        some = [row for row in rows if key.items() <= row.items()]
        gains = [row["pointing"] - row["pointing_other"] for row in some]
        summary[f"entropy {weight:g}, labels {words}, {name}"] = {
            **{
                each: float(np.mean([row[each] for row in some]))
                for each in ("pointing", "pointing_other", "apart", "concept_auc")
            },
            "specialized": [gain > SPECIALIZED for gain in gains],
        }
    parts = trained.model.part_names
    still = {name: found["pairs"] for name, found in blind(bank, parts, 2.0).items()}
    write_json(
        given.json, {"recipe": tree, "parts_apart": parts_apart, "rows": rows, "summary": summary, "blind": still}
    )
    print(json.dumps(summary, indent=1))


if __name__ == "__main__":
    main()
