"""The entropy's weight on `shapes`, judged on validation images alone: may the package's default be lower?

    python evidence/pf-cbm/entropy.py --json FILE [--images 800] [--seeds 0 1 2]

The recipe `shapes/pf-cbm` as it is, with other weights of the entropy. Beside pointing stands how far the queries and
the Gaussians tell patches apart (standard deviations over patches of the logits that each adds). Minutes on a CPU.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bank import make_bank, open_labels, open_places
from lab import train
from score import evaluate

from conceptlens.core.files import write_json
from conceptlens.recipes.parse import load_recipe

WEIGHTS = (0.0, 0.001, 0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--images", type=int, default=800)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    given = parser.parse_args()
    torch.set_num_threads(1)
    first = load_recipe("shapes/pf-cbm", ["--data.shapes.n", str(given.images), "--out", "runs/unused"])
    source, splits, known = open_places(first)
    bank, labels = make_bank("shapes", source, splits, first, known, "cpu"), open_labels(first)[1]
    rows: list[dict[str, Any]] = []
    for seed in given.seeds:
        for weight in WEIGHTS:
            begun = time.perf_counter()
            words = ["--data.shapes.n", str(given.images), "--out", "runs/unused", "--seed", str(seed)]
            recipe = load_recipe("shapes/pf-cbm", [*words, "--method.entropy_weight", str(weight)])
            model = train(bank, labels, recipe).model
            found = evaluate(model, bank, labels, "val")[0]
            queries, gaussians = model.grounding.say(next(bank.batches(bank.splits.val, 64)))
            rows.append(
                {
                    "entropy_weight": weight,
                    "seed": seed,
                    "val": {"top1": found["top1"], "auc": found["auc"], **found["places"]["pairs"]},
                    "query_say": queries,
                    "prior_say": gaussians,
                    "seconds": time.perf_counter() - begun,
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    means = {
        str(weight): {
            key: float(np.mean([row["val"][key] for row in rows if row["entropy_weight"] == weight]))
            for key in ("top1", "auc", "pointing_cells", "pointing_patch", "distance_patches")
        }
        for weight in WEIGHTS
    }
    write_json(given.json, {"images": given.images, "validation_images": len(splits.val), "means": means, "rows": rows})
    print(json.dumps(means, indent=1))


if __name__ == "__main__":
    main()
