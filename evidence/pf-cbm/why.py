"""Why Gaussians lose their say: a small form of Table 2's prior rows on a CPU, one setting changed at a time.

    python evidence/pf-cbm/why.py --cub cub --json FILE [--banks cub-full cub-box]

A quarter of the classes, half of their training images, a third of their test images; 8 + 8 epochs of batches of 32, a
gate of 32 units that learns from boxes, one seed. Beside accuracy and pointing stands how far the queries and the
Gaussians tell patches apart (`query_say`, `prior_say`: standard deviations over patches of the logits that each adds).
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bank import Bank, each_array
from lab import train
from run import HERE, Lab
from score import blind, evaluate
from torch.nn import functional as F

from conceptlens.core.files import read_yaml, write_json

CLASSES, TRAIN, TEST = 4, 2, 3  # every so-many-th
SMALL: dict[str, Any] = {"foreground": "box", "hidden": 32}
TRIALS: dict[str, dict[str, Any]] = {
    "entropy 0.01": {"entropy_weight": 0.01},
    "entropy 0.01, Gaussians fixed": {"entropy_weight": 0.01, "prior_rate": 0.0},
    "entropy 0.01, first stage at a tenth": {"entropy_weight": 0.01, "places_rate": 3e-4},
    "entropy 0.01, tokens normed": {"entropy_weight": 0.01, "normed": True},
    "entropy 0.1, tokens normed": {"entropy_weight": 0.1, "normed": True},
    "entropy 0.01, tokens normed, sigma 1.4": {"entropy_weight": 0.01, "normed": True, "sigma": 1.4},
    "entropy 0.001, tokens normed": {"entropy_weight": 0.001, "normed": True},
    "entropy 0.001": {"entropy_weight": 0.001},
    "entropy 0": {"entropy_weight": 0.0},
    "entropy 0.01, no prior": {"entropy_weight": 0.01, "prior": False},
    "entropy 0.001, no prior": {"entropy_weight": 0.001, "prior": False},
    "entropy 0, no prior": {"entropy_weight": 0.0, "prior": False},
    "entropy 0, tokens normed": {"entropy_weight": 0.0, "normed": True},
    "entropy 0, tokens normed, sigma 1.4": {"entropy_weight": 0.0, "normed": True, "sigma": 1.4},
    "entropy 0, tokens normed, mirrored frame": {"entropy_weight": 0.0, "normed": True, "pose": "mirrored"},
    "entropy 0.01, tokens normed, points": {
        "normed": True,
        "entropy_weight": 0.01,
        "keypoints": "image",
        "prior": False,
    },
}


def smaller(bank: Bank) -> Bank:
    """Some classes and some of their images, with the tokens of all."""
    labels, splits = bank.source.examples.labels, bank.splits
    held = {side: np.flatnonzero(labels[splits[side]] % CLASSES == 0) for side in ("train", "val", "test")}
    held["train"], held["test"] = held["train"][::TRAIN], held["test"][::TEST]
    judged = np.concatenate((held["val"], len(splits.val) + held["test"]))
    assert bank.known.judged is not None
    assert bank.judged is not None
    kept: dict[str, Any] = {side: splits[side][rows] for side, rows in held.items()}
    return replace(
        bank,
        splits=replace(splits, **kept),
        known=replace(bank.known, judged=each_array(bank.known.judged, lambda values: values[judged])),
        judged=each_array(bank.judged, lambda values: values[torch.from_numpy(judged)]),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cub", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--tokens", type=Path, default=Path("tokens"))
    parser.add_argument("--banks", nargs="*", default=["cub-full", "cub-box"])
    given = parser.parse_args()
    plain = {
        "blood": None,
        "teachers": None,
        "limit": None,
        "epochs": 1.0,
        "seconds": 1e9,
        "device": "cpu",
        "out": None,
    }
    plan = read_yaml(HERE / "plan.yaml")
    assert isinstance(plan, dict)
    lab = Lab(argparse.Namespace(**plain, cub=given.cub), plan, given.tokens)
    found: dict[str, Any] = {}
    for name in given.banks:
        bank = smaller(lab.bank(name))
        normed = replace(bank, tokens=F.layer_norm(bank.tokens, bank.tokens.shape[-1:]))
        rows = found.setdefault(name, {})
        for words, options in TRIALS.items():
            begun, own = time.perf_counter(), {**SMALL, **options}
            seen = normed if own.pop("normed", False) else bank
            recipe = lab.recipe(name, own, 0)
            recipe.training.batch_size, recipe.training.epochs, recipe.training.stages[0].epochs = 32, 8, 8
            labels = lab.labels_of(name, recipe, None)
            model = train(seen, labels, recipe).model
            row: dict[str, Any] = {}
            for split in ("val", "test"):
                judged = evaluate(model, seen, labels, split)[0]
                pairs = judged["places"]["pairs"]
                row[split] = {"top1": judged["top1"], "auc": judged["auc"], **pairs}
            queries, gaussians = model.grounding.say(next(seen.batches(seen.splits.val, 64)))
            rows[words] = {**row, "query_say": queries, "prior_say": gaussians, "seconds": time.perf_counter() - begun}
            rows.setdefault("blind", {key: each["pairs"] for key, each in blind(seen, model.part_names, 2.8).items()})
            write_json(given.json, found)
            print(name, words, f"{row['test']['pointing_cells']:.3f} {queries:.2f} {gaussians:.2f}", flush=True)


if __name__ == "__main__":
    main()
