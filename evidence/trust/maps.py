"""Where maps lie and whether the model used what they show: localization and faithfulness of small runs."""

import time
from pathlib import Path
from typing import Any

from results import Results, short
from train import FROZEN, SHAPES, train

from conceptlens.core.files import read_json
from conceptlens.evaluation.faithfulness.faithfulness import faithfulness_run
from conceptlens.evaluation.localization.localize import localize_run
from conceptlens.recipes.parse import merge
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.opened import OpenedRun

METHODS = ("ivq-cbm", "magnet-cbm", "explicd", "dot-cbm", "class token")
LESIONS = {"microaneurysms": "MA", "haemorrhages": "HE", "hard exudates": "EX", "soft exudates": "SE"}
MASKS = "idrid/segmentation/2. All Segmentation Groundtruths"
JOIN = {"eye": ["left eye", "right eye"], "leg": ["left leg", "right leg"], "wing": ["left wing", "right wing"]}


def sets(work: Path) -> dict[str, dict[str, Any]]:
    """Data sets: what is trained, and what is judged where that is something else."""
    base = {key: SHAPES[key] for key in ("regularizer", "training", "metrics")}
    base["encoder"] = {"name": "builtin/vit", "train": "none"}
    regions = {
        "ham": {"masks": str(work / "ham" / "masks_200x150"), "mask_files": {"object": "{name}_segmentation.png"}},
        "lesions": {
            "masks": str(work / MASKS),
            "mask_files": {name: f"*/*/{{name}}_{short_name}.png" for name, short_name in LESIONS.items()},
        },
        "cub": {
            "boxes": str(work / "cub-boxes.csv"),
            "points": str(work / "cub-points.csv"),
            "sizes": str(work / "cub-sizes.csv"),
            "join": {"bill": ["beak"], **JOIN},
        },
    }
    return {
        "shapes": {"recipe": SHAPES, "judged": None, "images": 40},
        "ham": {
            "recipe": {
                **base,
                "data": {"source": str(work / "ham.csv"), "images": str(work / "ham"), "regions": regions["ham"]},
                "concepts": "dermoscopy",
            },
            "judged": None,
            "images": 24,
        },
        "idrid": {
            "recipe": {
                **base,
                "data": {"source": str(work / "idrid.csv"), "images": str(work / "idrid"), "task": "ordinal"},
                "concepts": "fundus",
            },
            "judged": {
                "source": str(work / "lesions.csv"),
                "images": str(work / "idrid"),
                "regions": regions["lesions"],
            },
            "images": 24,
        },
        "cub": {
            "recipe": {
                **base,
                "data": {"source": str(work / "cub.csv"), "images": str(work / "cub"), "regions": regions["cub"]},
                "concepts": "cub-112",
            },
            "judged": None,
            "images": 12,
        },
    }


def measure(path: Path, judged: dict[str, Any] | None, images: int, faithful: int) -> dict[str, Any]:
    """Numbers of one run's maps; without `images`, nothing of where they lie."""
    run = OpenedRun.open(path)
    place: dict[str, Any] = {"images": 0, "targets": {}, "grid": None}
    if images:
        place = localize_run(run, data=judged, n=images).to_dict()
    use = faithfulness_run(run, data=judged, n=faithful).to_dict()
    test = read_json(path / "metrics.json")["splits"]["test"]

    def told(estimate: dict[str, Any]) -> list[float | None]:
        return [short(estimate["value"]), *(short(end) for end in estimate.get("interval") or (None, None))]

    return {
        "method": RunFolder.open(path).info["method"],
        "data": use["data"],
        "images": place["images"],
        "grid": place["grid"],
        "class_balanced_accuracy": short(test["class"]["balanced_accuracy"]),
        "concept_balanced_accuracy": short(test["concept"]["balanced_accuracy"]),
        "targets": {
            target: {
                "maps": {
                    name: {key: told(found[key]) for key in ("energy", "lift", "pointing", "iou_best")}
                    for name, found in one["maps"].items()
                },
                "against": {name: told(found["energy"]) for name, found in one["against"].items()},
            }
            for target, one in place["targets"].items()
        },
        "faithfulness": {
            "images": use["images"],
            "curves": {
                name: {key: told(value) for key, value in found.items()} for name, found in use["curves"].items()
            },
            "against_random": {
                name: {key: told(value) for key, value in found.items()}
                for name, found in use["against_random"].items()
            },
            **{
                topic: {name: told(value) for name, value in use[topic].items()}
                for topic in ("occlusion", "stability", "other_image", "randomized", "agreement")
            },
        },
    }


def run(name: str, work: Path, seeds: int, seconds: float, *, faithful: int = 8) -> None:
    """Train what is missing on one data set and judge its maps."""
    one, until = sets(work)[name], time.monotonic() + seconds
    results = Results("maps.json.gz", seconds)
    for seed in range(seeds):
        wanted = {f"{name} {method} {seed}": method for method in (FROZEN if name == "shapes" else METHODS)}
        for row in results.missing(wanted):
            out = work / "maps" / name / f"{wanted[row].replace(' ', '-')}-s{seed}"
            store = {"encoder": {"store": str(work / f"tokens-{name}")}, "seed": seed}
            train(merge(merge(one["recipe"], FROZEN[wanted[row]]), store), out)
            if time.monotonic() > until + 60:
                return
            results.put(row, measure(out, one["judged"], one["images"], faithful))


def finished(folder: Path, seconds: float, *, faithful: int = 8) -> None:
    """Faithfulness on blood cells, whose parts nobody marked, of finished runs of the first seed."""
    results = Results("maps.json.gz", seconds)
    found = {
        f"blood {method} 0": path
        for method in (*METHODS, "mvp-cbm", "cbm", "pcbm")
        for path in folder.glob(f"blood-cells-{method.replace(' ', '-')}-s0-*")
    }
    for row in results.missing(found):
        results.put(row, measure(found[row], None, 0, faithful))


def tuned(folder: Path, seconds: float, *, faithful: int = 8) -> None:
    """Maps of the runs whose last block learned."""
    found = {path.parent.name: path.parent for path in sorted(folder.glob("*/run.json"))}
    results = Results("regularizers.json.gz", seconds)
    for name in results.missing(sorted(found, key=lambda each: each.rpartition("-s")[2])):
        results.put(
            name,
            {
                "regularizer": RunFolder.open(found[name]).info["regularizer"],
                **measure(found[name], None, 40, faithful),
            },
        )
