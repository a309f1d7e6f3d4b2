"""Does the class use the mean logit of a group, which the cross-entropy within groups leaves free?

    python evidence/mean-logit/run.py WORK

A softmax within a group does not change when the same number is added to all its logits. A joint model whose head reads
raw logits can use that number as a channel for the class that no concept label ever sees. Built-in blood cells, frozen
builtin/vit, three seeds, test images once. The joint models of three papers, whose heads read raw logits (the presets
`cbm`, `coop-cbm` and `mvp-cbm` of this package do not: theirs read log-probabilities, which have no free mean); group
cross-entropy against binary cross-entropy of every value, which has no such freedom; and the concepts without the
class's gradient as the control.

alone    accuracy of a logistic regression that sees the groups' means only (five folds of the test
         images)
without  accuracy of the run's own head when each group's mean is that of all images
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.readout import Readout
from conceptlens.training.train import start_run

FILE = Path(__file__).parent / "rows.jsonl"
JOINT = {"space": "logit", "randint": 0.0, "class_gradient": 1.0, "calibrate": False, "head_rate": 1.0}
METHODS: dict[str, dict[str, Any]] = {
    "cbm": {"name": "cbm", **JOINT},
    "coop-cbm": {"name": "coop-cbm", **JOINT},
    "mvp-cbm": {"name": "mvp-cbm", **JOINT},
    "cbm, no class gradient": {"name": "cbm", **JOINT, "class_gradient": 0.0},
}


def means(readout: Readout) -> tuple[np.ndarray[Any, Any], list[slice]]:
    """Mean logit of each exclusive group, (N, G), and where the groups lie."""
    groups = [group.concepts for group in readout.concepts.groups if group.kind == "exclusive"]
    spans = [slice(group.start, group.stop) for group in groups]
    return np.stack([readout.concept_logits[:, span].mean(1) for span in spans], 1), spans


def measured(run: Path) -> dict[str, float]:
    opened = OpenedRun.open(run)
    test = opened.readout("test")
    assert test.space == "logit"
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    free, spans = means(test)
    flat = test.bottleneck.copy()
    for place, span in enumerate(spans):
        flat[:, span] -= (free[:, place] - free[:, place].mean())[:, None]
    return {
        "class": float(test.hits(test.logits(test.bottleneck)).mean()),
        "without": float(test.hits(test.logits(flat)).mean()),
        "alone": float(cross_val_score(probe, free, test.labels, cv=5).mean()),
        "commonest": float(np.bincount(test.labels).max() / len(test.labels)),
        "images": len(test),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    given = parser.parse_args()
    lines = FILE.read_text("utf-8").splitlines() if FILE.exists() else []
    done = {(row["method"], row["loss"], row["seed"]) for row in map(json.loads, lines)}
    for seed in given.seeds:
        for name, method in METHODS.items():
            for loss in ("group", "bce"):
                if (name, loss, seed) in done:
                    continue
                tokens = "tokens-all" if method["name"] == "mvp-cbm" else "tokens"
                recipe = {
                    "data": {"source": "blood-cells"},
                    "encoder": {"name": "builtin/vit", "train": "none", "store": str(given.work / tokens)},
                    "method": method,
                    "seed": seed,
                    "metrics": {"bootstrap": 0, "rank_images": 0},
                    "training": {"epochs": 30, "batch_size": 64, "learning_rate": 1.0e-3, "loss": {"concept": loss}},
                }
                run = given.work / f"{name.replace(', ', '-').replace(' ', '-')}-{loss}-{seed}"
                settled = load_recipe(recipe | {"out": str(run)})
                start_run(settled, lambda *anything: None, overwrite=True, quiet=True)
                row = {"method": name, "loss": loss, "seed": seed, **measured(run)}
                with FILE.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
