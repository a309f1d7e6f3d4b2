"""What a person's corrections are worth where there is something to gain: few training images, and blurred ones.

True labels of the built-in blood cells settle the class, and methods read them well, so corrections can hardly help. In
`few` five images of each class are learned from; in `blurred` fifty, and the test images were shrunk to 10 pixels and
enlarged again, as a picture out of focus.
"""

import csv
import io
import time
import zipfile
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

from PIL import Image
from results import Results
from train import FROZEN, train

from conceptlens.evaluation.interventions.measure import measure_interventions
from conceptlens.recipes.parse import merge
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.opened import OpenedRun
from conceptlens.stats.estimates import Bootstrap
from methods import RESAMPLES, told

METHODS = ("cbm", "cbm-sequential", "cbm-independent", "ivq-cbm", "pcbm", "cem")
LEARNED = {"few": 5, "blurred": 50}  # images of each class
PIXELS = 10
RECIPE: dict[str, Any] = {
    "encoder": {"name": "builtin/vit", "train": "none"},
    "regularizer": "none",
    "concepts": "blood-cells",
    "training": {
        "epochs": 20, "batch_size": 25, "learning_rate": 2e-3, "warmup": 0.5, "rank_every": 0, "threads": 1,
    },
    "metrics": {"bootstrap": 0},
}  # fmt: skip


def prepare(world: str, folder: Path) -> Path:
    """The table of one world, and its images."""
    table = folder / "labels.csv"
    if table.exists():
        return table
    folder.mkdir(parents=True, exist_ok=True)
    content = resources.files("conceptlens.data.sources").joinpath("builtin", "blood-cells.zip").read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        rows = list(csv.DictReader(io.TextIOWrapper(archive.open("labels.csv"), "utf-8")))
        learned: Counter[str] = Counter()
        kept = []
        for row in rows:
            if row["split"] == "train":
                learned[row["class"]] += 1
                if learned[row["class"]] > LEARNED[world]:
                    continue
            kept.append(row)
            picture = Image.open(io.BytesIO(archive.read(row["image"]))).convert("RGB")
            if world == "blurred" and row["split"] == "test":
                small = picture.resize((PIXELS, PIXELS), Image.Resampling.BILINEAR)
                picture = small.resize(picture.size, Image.Resampling.BICUBIC)
            picture.save(folder / row["image"], quality=95)
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(kept[0]))
        writer.writeheader()
        writer.writerows(kept)
    return table


def measure(path: Path) -> dict[str, Any]:
    """Curves of all four orders."""
    readout = OpenedRun.open(path).readout()
    found = measure_interventions(readout, Bootstrap(readout.units, RESAMPLES))
    return {
        "method": RunFolder.open(path).info["method"],
        "images": found.images,
        "start": told(found.start),
        "ceiling": told(found.ceiling),
        "headroom": told(found.headroom),
        "right": {curve.policy: [told(point) for point in curve.points] for curve in found.curves},
        "wrong": {curve.policy: [told(point) for point in curve.wrong] for curve in found.curves},
        "gain": {curve.policy: told(curve.gain) for curve in found.curves},
        "area": {curve.policy: told(curve.area) for curve in found.curves},
    }


def run(work: Path, seeds: int, seconds: float) -> None:
    until, results = time.monotonic() + seconds, Results("headroom.json.gz", seconds)
    for seed in range(seeds):
        for world in LEARNED:
            table = prepare(world, work / "headroom" / world)
            for method in METHODS:
                name = f"{world} {method} {seed}"
                if name in results.rows or time.monotonic() > until:
                    continue
                out = work / "headroom" / f"{world}-{method}-s{seed}"
                own = {
                    "data": {"source": str(table)},
                    "encoder": {"store": str(work / "headroom" / f"tokens-{world}")},
                    "seed": seed,
                }
                train(merge(merge(RECIPE, FROZEN[method]), own), out)
                results.put(name, measure(out))
