"""Why `ivq-cbm` starts as it does: its defaults, the equations as printed, and the published code, five seeds each.

    python evidence/ivq-defaults/run.py [--out runs/ivq-defaults] [--json results.json]

About twelve seconds a run on an H200, two and a half minutes on two CPU cores.
"""

import argparse
import platform
from pathlib import Path
from typing import Any

import torch

import conceptlens as cl
from conceptlens.core.files import read_json, write_json
from conceptlens.recipes.parse import merge

BASE: dict[str, Any] = {
    "data": {"source": "blood-cells"},
    "encoder": {"name": "builtin/vit-mini", "text": "builtin/hashed-text"},
    "training": {"epochs": 30, "batch_size": 32, "learning_rate": 1e-3},
    "metrics": {"bootstrap": 0},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "calibrated-once": {"method": {"hold_entropy": False}},
    "as-printed": {
        "method": {
            "temperature": 1.0,
            "token_norm": "none",
            "query_init": "normal",
            "refill": False,
            "hold_entropy": False,
        },
        "regularizer": {"init": "uniform", "rate": 1.0, "revive": False},
    },
    "no-regularizer": {"regularizer": {"name": "none"}},
    "released": {"method": {"name": "ivq-cbm-released"}, "training": {"epochs": 30, "warmup": 2}},
}


def measure(variant: str, seed: int, out: Path) -> dict[str, Any]:
    """Train one variant with one seed; the numbers of its test split."""
    recipe = merge(merge(BASE, VARIANTS[variant]), {"seed": seed, "out": str(out / f"{variant}-{seed}")})
    run = cl.train(recipe, overwrite=True, quiet=True)
    test = read_json(run.path / "metrics.json")["splits"]["test"]
    codebook, slots = test.get("codebook", {}), test.get("slots", {})
    care = [line for line in run.read_history() if line.get("kind") == "upkeep"]
    return {
        "name": variant,
        "seed": seed,
        "bacc": test["class"]["balanced_accuracy"],
        "cbacc": test["concept"]["balanced_accuracy"],
        "cprior": test["concept"]["balanced_accuracy_prior_corrected"],
        "cauc": test["concept"]["auc"],
        "cauc_in": test["concept"]["auc_within_class"],
        "chance": test["concept"]["groups_at_chance"]["names"],
        "rp": test["rank"]["published"],
        "re": test["rank"]["effective"],
        "use": codebook.get("use"),
        "perp": codebook.get("perplexity"),
        "ent": slots.get("assignment_entropy"),
        "empty": len(slots.get("empty_slots") or []),
        "refilled": sum(line.get("slots_refilled", 0) for line in care),
        "dead": sum(line.get("codes_dead", 0) for line in care),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("runs/ivq-defaults"))
    parser.add_argument("--json", type=Path, default=Path("results.json"))
    args = parser.parse_args()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor()
    machine = {"device": device, "torch": torch.__version__, "python": platform.python_version()}
    rows: list[dict[str, Any]] = []
    for variant in VARIANTS:
        for seed in range(5):
            rows.append(measure(variant, seed, args.out))
            print(rows[-1], flush=True)
            write_json(args.json, {"machine": machine, "runs": rows})  # what is done is kept


if __name__ == "__main__":
    main()
