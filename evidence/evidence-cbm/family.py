"""evidence-cbm beside the family: class, concepts, corrections and places at once, frozen encoders.

    python evidence/evidence-cbm/family.py tune WORK --data FOLDER   three settings of each method, on validation images
    python evidence/evidence-cbm/family.py test WORK --data FOLDER   three seeds at the chosen setting, test images once
    python evidence/evidence-cbm/family.py both WORK --tiny --jobs 2 everything in small, to see that it runs

FOLDER holds image sets as they were published (IDRiD, HAM10000, CUB-200-2011), prepared by `evidence/trust/prepare.py`.
Every method has the same budget: three settings, one seed, chosen by the mean of the class's balanced accuracy and the
concepts' AUC: three rates, or for SALF-CBM, which is fitted, three ways to mark a region. All that can have the same
bottleneck (calibrated log-probabilities that never saw the class, RandInt) have it, so that only the reader differs.
Rows go to WORK/tune.jsonl and WORK/rows.jsonl; what is there already is not made again. Places are judged by a method's
own map; `cbm` has none and is judged by Grad-CAM and by occlusion.
"""

import argparse
import os
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "trust")]

from jobs import Job, read_rows, run_jobs  # noqa: E402  # a neighbor

Tree = dict[str, Any]
SEQUENTIAL: Tree = {"randint": "uniform", "class_gradient": 0.0, "calibrate": True, "head_rate": 5.0}
METHODS: dict[str, Tree] = {
    "evidence-cbm": {"method": "evidence-cbm"},
    "evidence-cbm, last layer": {"method": "evidence-cbm", "encoder": {"layers": []}},  # reads what the others read
    "evidence-cbm, points": {"method": {"name": "evidence-cbm", "places": "points"}},  # told where parts are
    # Small objects at a scale that the encoder knows, and patches that are asked alone.
    "evidence-cbm, larger images": {"method": {"name": "evidence-cbm", "patch_loss": 3.0}},
    "evidence-cbm, last block learns": {"method": "evidence-cbm", "encoder": {"train": 1}},
    "evidence-cbm, whole encoder learns": {"method": "evidence-cbm", "encoder": {"train": "all"}},
    "cbm": {"method": "cbm"},
    "cbm, last block learns": {"method": "cbm", "encoder": {"train": 1}},
    "explicd": {"method": "explicd"},
    "ivq-cbm": {"method": "ivq-cbm"},
    "sl-cbm": {"method": {"name": "sl-cbm", **SEQUENTIAL}},  # its head reads a layer norm of the scores
    "pf-cbm, points": {"method": {"name": "pf-cbm", "keypoints": "image"}},  # told where parts are: a reference
    "dot-cbm": {"method": "dot-cbm"},
    "additive-mil": {"method": "additive-mil"},
    "salf-cbm": {"method": "salf-cbm"},
    "black-box": {"method": "black-box"},
}
# Handed several layers:
LAYERED = (
    "evidence-cbm",
    "evidence-cbm, points",
    "evidence-cbm, larger images",
    "evidence-cbm, last block learns",
    "additive-mil",
)
RATE_OF = {  # not tuned again: the setting that this method was given
    "evidence-cbm, points": "evidence-cbm",
    "evidence-cbm, whole encoder learns": "evidence-cbm, last block learns",
}
NO_CONCEPTS = ("additive-mil", "black-box")
FAITHFUL = ("evidence-cbm", "explicd", "cbm")
MAPS: dict[str, Any] = dict.fromkeys(("cbm", "cbm, last block learns"), ("gradcam", "occlusion"))  # others: their own
RATES: dict[Any, Tree] = {rate: {"training": {"learning_rate": rate}} for rate in (3e-4, 1e-3, 3e-3)}
PROMPTS: dict[Any, Tree] = {
    "circle": {"method": {"prompt": "circle"}},
    "crop": {"method": {"prompt": "crop"}},
    "wide crop": {"method": {"prompt": "crop", "radius": 2 / 7}},
}
RESAMPLES = 200
SIZE, VIT, LITE = 112, "builtin/vit", "builtin/efficientnet-lite0"
LESIONS = {"microaneurysms": "MA", "haemorrhages": "HE", "hard exudates": "EX", "soft exudates": "SE"}
MASKS = "idrid/segmentation/2. All Segmentation Groundtruths"
JOIN = {"eye": ["left eye", "right eye"], "leg": ["left leg", "right leg"], "wing": ["left wing", "right wing"]}


def choices(method: str) -> dict[Any, Tree]:
    """The settings that a method is tuned over."""
    return PROMPTS if method == "salf-cbm" else RATES


def small(one: Tree) -> Tree:
    """A data set in small, for two epochs."""
    from conceptlens.recipes.parse import merge

    data: Tree = {"limit": 160}
    if one["recipe"]["data"]["source"] == "shapes":
        data = {"shapes": {"n": 200}}
    return {**one, "recipe": merge(one["recipe"], {"data": data}), "small": {"training": {"epochs": 2}}}


def sets(work: Path) -> dict[str, Tree]:
    """Data sets: the recipe, what is judged where that is something else, the encoder, and methods that do not fit."""

    def shapes(**options: Any) -> Tree:
        return {"data": {"source": "shapes", "shapes": {"n": 2000, "size": SIZE, **options}}}

    lesions = {name: f"*/*/{{name}}_{short}.png" for name, short in LESIONS.items()}
    cub = {
        "boxes": str(work / "cub-boxes.csv"),
        "points": str(work / "cub-points.csv"),
        "sizes": str(work / "cub-sizes.csv"),
        "join": {"bill": ["beak"], **JOIN},
    }
    ham = {"masks": str(work / "ham" / "masks_200x150"), "mask_files": {"object": "{name}_segmentation.png"}}
    no_points = ("pf-cbm, points", "evidence-cbm, points")
    no_texts = ("salf-cbm",)  # texts carry where the text tower knows the images
    learning = ("evidence-cbm, last block learns", "cbm, last block learns", "evidence-cbm, whole encoder learns")
    larger = ("evidence-cbm, larger images",)
    return {
        "IDRiD": {
            "recipe": {
                "data": {"source": str(work / "idrid.csv"), "images": str(work / "idrid"), "task": "ordinal"},
                "concepts": "fundus",
            },
            "judged": {
                "source": str(work / "lesions.csv"),
                "images": str(work / "idrid"),
                "regions": {"masks": str(work / MASKS), "mask_files": lesions},
            },
            "encoder": VIT,
            "size": 224,
            "larger": 384,  # all that the files have
            "without": no_points + no_texts,
        },
        "CUB": {
            "recipe": {
                "data": {"source": str(work / "cub.csv"), "images": str(work / "cub"), "regions": cub},
                "concepts": "cub-112",
            },
            "encoder": LITE,
            # They need a text tower, or as many minutes as all others.
            "without": ("sl-cbm", "dot-cbm", "salf-cbm", *learning, *larger),
        },
        "cells off center": {
            "recipe": {"data": {"source": "blood-cells-off-center"}},
            "encoder": VIT,
            "larger": 152,  # cells as large as in the encoder's own training
            "without": no_points,
        },
        "shapes anywhere": {"recipe": shapes(anywhere=True), "encoder": VIT, "without": no_texts + learning + larger},
        "HAM10000": {
            "recipe": {
                "data": {"source": str(work / "ham.csv"), "images": str(work / "ham"), "regions": ham},
                "concepts": "dermoscopy",
            },
            "encoder": VIT,
            "without": ("dot-cbm", *no_points, *no_texts, *larger),  # dot-cbm: as many minutes as all others
        },
    }


def prepare(data: Path, work: Path, names: set[str]) -> None:
    """Tables of the sets that are asked for: all of IDRiD, HAM10000 less most nevi, CUB's first 100 species."""
    from prepare import cub, ham, idrid

    if "IDRiD" in names and not (work / "idrid.csv").exists():
        idrid(data / "idrid_384", work)
    if "HAM10000" in names and not (work / "ham.csv").exists():
        ham(data / "ham10000_200x150", data / "ham10000_split.csv", work, most=600)
    if "CUB" in names and not (work / "cub.csv").exists():
        cub(data / "cub_144", data / "cub_original_sizes.csv", work, species=100, most=10**6)


def store_of(one: Tree, name: str, method: str, work: Path) -> str:
    """Methods that read the same layers of the same blocks share a token store; a whole encoder has none."""
    if method.endswith("whole encoder learns"):
        return ""
    layers = ("-layers" if method in LAYERED else "") + ("-learns" if method.endswith("learns") else "")
    layers += "-larger" if method.endswith("larger images") else ""
    return str(work / f"tokens-{name.replace(' ', '-')}{layers}{'-small' if 'small' in one else ''}")


def recipe_of(one: Tree, name: str, method: str, seed: int, setting: Any, work: Path) -> Tree:
    from conceptlens.recipes.parse import merge

    encoder: Tree = {"name": one["encoder"], "train": "none"}
    if store := store_of(one, name, method, work):
        encoder["store"] = store
    if size := one["larger"] if method.endswith("larger images") else one.get("size"):
        encoder["image_size"] = size
    own: Tree = {
        "regularizer": "none",
        "encoder": encoder,
        "seed": seed,
        "training": {"rank_every": 0, "compile": False},
        "metrics": {"bootstrap": RESAMPLES},
    }
    if method != "salf-cbm":  # which is fitted
        own["training"] |= {"epochs": "auto", "batch_size": 64}
        own = merge(own, one.get("small", {}))
    chosen: Tree = choices(method)[setting]
    if "method" in chosen:
        chosen = {**chosen, "method": {"name": method, **chosen["method"]}}
    return merge(merge(merge(one["recipe"], own), METHODS[method]), chosen)


def tuned(one: Tree, name: str, method: str, setting: Any, work: Path) -> Tree:
    """One training whose validation images tell how good a setting is; no test image is read."""
    import conceptlens as cl
    from conceptlens.core.files import read_json
    from conceptlens.recipes.parse import merge

    started = time.monotonic()
    out = work / "tune" / f"{name}-{method}-{setting}".replace(" ", "-")
    recipe = merge(recipe_of(one, name, method, 100, setting, work), {"metrics": {"test": False}})
    cl.train(recipe, out=out, overwrite=True, quiet=True)
    val = read_json(out / "metrics.json")["splits"]["val"]
    numbers = [val["class"]["balanced_accuracy"]] + ([] if method in NO_CONCEPTS else [val["concept"]["auc"]])
    row = {"data": name, "method": method, "rate": setting, "score": sum(numbers) / len(numbers), "numbers": numbers}
    return {**row, "seconds": round(time.monotonic() - started, 1)}


def places(run: Any, method: str, judged: Tree | None, n: int) -> Tree:
    """Where the maps lie, of the value that the model reads: numbers of every map, and the verdict."""
    from conceptlens.evaluation.localization.localize import localize_run

    found = localize_run(run, data=judged, n=n, maps=MAPS.get(method, ("own",))).to_dict()
    return {key: found[key] for key in ("images", "grid", "targets", "numbers", "verdict", "map_verdicts")}


def tested(one: Tree, name: str, method: str, seed: int, setting: Any, work: Path, n: int, faithful: int) -> Tree:
    """Train one model and examine it on test images."""
    import conceptlens as cl
    from conceptlens.core.files import read_json
    from conceptlens.evaluation.faithfulness.faithfulness import faithfulness_run
    from conceptlens.evaluation.trust import intervene_run
    from conceptlens.runs.opened import OpenedRun

    clock = [time.monotonic()]
    out = work / "runs" / f"{name}-{method}-{seed}".replace(" ", "-")
    if not (out / "model" / "model.json").exists():
        cl.train(recipe_of(one, name, method, seed, setting, work), out=out, overwrite=True, quiet=True)
    clock.append(time.monotonic())
    run = OpenedRun.open(out)
    test = read_json(out / "metrics.json")["splits"]["test"]
    row: Tree = {"data": name, "encoder": one["encoder"], "method": method, "seed": seed, "rate": setting}
    row["class"] = {key: test["class"].get(key) for key in ("accuracy", "balanced_accuracy")}
    if method not in NO_CONCEPTS:
        row["concept"] = {key: test["concept"].get(key) for key in ("auc", "auc_within_class", "balanced_accuracy")}
        interventions = intervene_run(run, split="test", orders=("chance",), resamples=RESAMPLES)
        row["corrections"] = {"verdict": interventions.verdict.model_dump(), **interventions.numbers}
        clock.append(time.monotonic())
        row["places"] = places(run, method, one.get("judged"), n)
        clock.append(time.monotonic())
    if method in FAITHFUL and seed == 0 and faithful:
        row["faithfulness"] = faithfulness_run(run, data=one.get("judged"), n=faithful).to_dict()
        clock.append(time.monotonic())
    row["seconds"] = [round(after - before, 1) for before, after in pairwise(clock)]
    return row


def best_setting(rows: list[Tree], name: str, method: str) -> Any:
    found = [row for row in rows if (row["data"], row["method"]) == (name, RATE_OF.get(method, method))]
    if not found:
        return None
    return max(found, key=lambda row: float(row["score"]))["rate"]


def tune_key(row: Tree) -> tuple[Any, ...]:
    return row["data"], row["method"], row["rate"]


def test_key(row: Tree) -> tuple[Any, ...]:
    return row["data"], row["method"], row["seed"]


def tune_line(row: Tree) -> str:
    return f"{row['numbers']} {row['seconds']} s"


def test_line(row: Tree) -> str:
    maps = row.get("places", {}).get("numbers", {})
    return f"{row['seconds']} {row['class']} {row.get('concept')} {maps}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("tune", "test", "both"))
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", type=Path, help="without it, only the sets that the package draws itself")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="data sets and methods that contain this; several by |")
    parser.add_argument("--n", type=int, default=200, help="images whose maps are judged")
    parser.add_argument("--faithful", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--threads", type=int, default=1, help="of each")
    parser.add_argument("--device", default="", help="cpu or cuda; the GPU where there is one by default")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--tiny", action="store_true", help="few images, two epochs, one seed")
    options = parser.parse_args()
    began = time.monotonic()
    options.work.mkdir(parents=True, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # workers inherit both
    if options.device:
        os.environ["CONCEPTLENS_DEVICE"] = options.device
    chosen: list[tuple[str, Tree, str]] = []
    for name, one in sets(options.work).items():
        for method in METHODS:
            wanted = any(word in f"{name} / {method} /" for word in options.only.split("|"))
            drawn = one["recipe"]["data"]["source"] in ("shapes", "blood-cells-off-center")
            if wanted and method not in one["without"] and (drawn or options.data):
                chosen.append((name, small(one) if options.tiny else one, method))
    if options.data:
        prepare(options.data, options.work, {name for name, _, _ in chosen})
    settings: Tree = {"count": options.jobs, "threads": options.threads}
    tune, rows, work = options.work / "tune.jsonl", options.work / "rows.jsonl", options.work
    if options.what != "test":
        tunings = [
            Job((name, method, setting), tuned, (one, name, method, setting, work), store_of(one, name, method, work))
            for name, one, method in chosen
            if method not in RATE_OF
            for setting in choices(method)
        ]
        run_jobs(tunings, tune, tune_key, seconds=options.seconds, told=tune_line, **settings)
    if options.what != "tune":
        made = read_rows(tune)
        tests = []
        for seed in range(1 if options.tiny else options.seeds):
            for name, one, method in chosen:
                if (setting := best_setting(made, name, method)) is None:
                    print(f"{name}, {method}: tune it first", flush=True)
                    continue
                arguments = (one, name, method, seed, setting, work, options.n, options.faithful)
                tests.append(Job((name, method, seed), tested, arguments, store_of(one, name, method, work)))
        left = options.seconds - (time.monotonic() - began)
        tuned_by = {(row["data"], row["method"]) for row in made}
        filled = {store_of(one, name, method, work) for name, one, method in chosen if (name, method) in tuned_by}
        run_jobs(tests, rows, test_key, seconds=left, told=test_line, filled=filled, **settings)
