"""What a training step costs on stored tokens of a frozen encoder: evidence-cbm beside explicd and the family.

    python bench/reader_step.py STORE [--steps 60] [--rounds 5] [--json FILE]

STORE is a folder for the tokens of some drawn images (`builtin/vit`, 196 patches), which stays. Batches of 64 for all;
presets otherwise. Methods take turns, and the quickest round counts. `last layer` is evidence-cbm on the tokens that
the others read; as a preset it reads three layers.
"""

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

from step import step_times

METHODS: dict[str, dict[str, Any]] = {
    "evidence-cbm": {"method": "evidence-cbm"},
    "evidence-cbm, last layer": {"method": "evidence-cbm", "encoder": {"layers": []}},
    "explicd": {"method": "explicd"},
    "ivq-cbm": {"method": "ivq-cbm"},
    "cbm": {"method": "cbm"},
}


def recipe_of(name: str, store: Path, images: int) -> dict[str, Any]:
    own = METHODS[name]
    layers = "-layers" if name == "evidence-cbm" else ""
    encoder = {
        "name": "builtin/vit",
        "train": "none",
        "store": str(store / f"tokens{layers}"),
        **own.get("encoder", {}),
    }
    return {
        "data": {"source": "shapes", "shapes": {"n": images, "size": 112}},
        "encoder": encoder,
        "method": own["method"],
        "regularizer": "none",
        "training": {"rank_every": 0, "compile": False, "batch_size": 64, "learning_rate": 1e-3},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in METHODS}
    for _ in range(args.rounds):
        for name, rounds in times.items():
            rounds.append(float(np.median(step_times(recipe_of(name, args.store, args.images), args.steps))))
    for name, rounds in times.items():
        ratio = min(rounds) / min(times["explicd"])
        print(
            f"{name:28}{min(rounds):9.2f} ms a step{ratio:9.2f} × explicd   rounds {[round(one, 2) for one in rounds]}"
        )
    if args.json:
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or "CPU"
        machine = {"device": device, "torch": torch.__version__, "threads": torch.get_num_threads()}
        machine["load"] = os.getloadavg()[0]
        result = {"schema": 1, "what": __doc__, "machine": machine, "milliseconds": times}
        args.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
