"""Small trainings, each a minute or so on one core, that the questions need: on drawn creatures, and for maps.

`frozen`: methods on stored tokens of the frozen built-in encoder. `tuned`: the last block learns as well, with IVQ,
with plain L2 in its place, and with nothing; six of the concepts are then invisible by construction.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import conceptlens as cl
from conceptlens.recipes.parse import merge
from conceptlens.runs.folder import RunFolder

FROZEN: dict[str, dict[str, Any]] = {  # quick ones first
    "cbm": {"method": "cbm"},
    "cbm-sequential": {"method": "cbm-sequential"},
    "cbm-independent": {"method": "cbm-independent"},
    "ivq-cbm": {"method": "ivq-cbm"},
    "pcbm": {"method": "pcbm"},
    "pcbm-h": {"method": "pcbm-h"},
    "cem": {"method": "cem"},
    "explicd": {"method": "explicd"},
    "class token": {"method": {"name": "ivq-cbm", "aggregate": "cls"}},
    "coop-cbm": {"method": "coop-cbm"},
    "magnet-cbm": {"method": "magnet-cbm"},
    "lf-cbm": {"method": {"name": "lf-cbm", "concept_similarity": 1.0, "activation": 0.0}},
    "mvp-cbm": {"method": "mvp-cbm"},
    "dot-cbm": {"method": "dot-cbm"},
}
TUNED: dict[str, dict[str, Any]] = {
    "IVQ": {"regularizer": {"name": "ivq"}},
    "plain L2": {"regularizer": {"name": "l2"}},
    "none": {"regularizer": {"name": "none"}},
}
SHAPES: dict[str, Any] = {
    "data": {"source": "shapes", "shapes": {"n": 900, "size": 96}},
    "encoder": {"name": "builtin/vit", "image_size": 96, "train": "none"},
    "regularizer": {"name": "none"},
    "training": {"epochs": 10, "batch_size": 32, "learning_rate": 2e-3, "warmup": 0.5, "rank_every": 0, "threads": 1},
    "metrics": {"bootstrap": 300},  # which the intervals of maps are made with too
}
INVISIBLE = 6
TUNED_SHAPES = merge(SHAPES, {"data": {"shapes": {"n": 500, "invisible": INVISIBLE}}})
TUNE: dict[str, Any] = {
    "encoder": {"train": 1, "learning_rate": 1e-3},
    "method": "ivq-cbm",
    "training": {"epochs": 4, "batch_size": 16, "select": "concept.balanced_accuracy", "loss": {"concept_weight": 3}},
}


def train(recipe: dict[str, Any], out: Path) -> float:
    """Seconds that a training took; 0 for one that was there."""
    if (out / "run.json").exists() and RunFolder.open(out).info["status"] == "done":
        return 0.0
    started = time.monotonic()
    cl.train(merge(recipe, {"out": str(out)}), overwrite=True, quiet=True)
    print(f"{out.name}: {time.monotonic() - started:.0f} s", flush=True)
    return time.monotonic() - started


def recipes(base: dict[str, Any], work: Path, seeds: range, *, tuned: bool) -> Iterator[tuple[dict[str, Any], Path]]:
    """Of each variant and seed, one seed after the other."""
    for seed in seeds:
        for name, change in (TUNED if tuned else FROZEN).items():
            store = {"encoder": {"store": "run" if tuned else str(work / "tokens")}, "seed": seed}
            made = merge(merge(merge(base, TUNE if tuned else {}), change), store)
            yield made, work / ("tuned" if tuned else "frozen") / f"{name.replace(' ', '-')}-s{seed}"


def run(work: Path, seeds: int, seconds: float, *, tuned: bool, only: str = "") -> None:
    """All variants on drawn creatures, or those whose names begin with `only`."""
    until = time.monotonic() + seconds
    for recipe, out in recipes(TUNED_SHAPES if tuned else SHAPES, work, range(seeds), tuned=tuned):
        if not out.name.startswith(only):
            continue
        if time.monotonic() > until:
            print("time is up; call again to go on")
            return
        train(recipe, out)
