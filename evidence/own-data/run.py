"""Is the recipe that `conceptlens init` writes good enough? Against the best of 20 trials that validation chose.

    python evidence/own-data/run.py DATA OUT [--sets blood-cells idrid skin] [--sizes 100 300] [--seeds 0 1 2 3 4]
                                    [--trials 20]
    python evidence/own-data/run.py --table OUT

DATA holds the packs `wbcatt_128`, `idrid_384` and `ham10000_200x150` as they are published. For every set, size and
seed a folder with a sheet is made (training images of that number, half as many for validation, at most 500 for the
test), `init` writes its recipe, and the recipe is trained. Then trials are drawn from `SPACE` with the same seed and
trained without a look at the test; the one that is best on validation is tested. One line of `results.jsonl` is one
training: what is there is not done again. One process; a training takes about a minute of one core.
"""

import argparse
import csv
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import conceptlens as cl
from conceptlens.core.files import read_json

SETS = ("blood-cells", "idrid", "skin")
TEST = 500
# What a person who tunes would try; the default recipe is one of these points.
SPACE: dict[str, list[Any]] = {
    "training.learning_rate": [3e-4, 1e-3, 3e-3],
    "training.weight_decay": [0.01, 0.1],
    "training.epochs": ["auto", 30, 100],
    "training.loss.class_balance": ["none", "balanced"],
    "training.loss.label_smoothing": [0.0, 0.1],
    "encoder.train": ["none", 1, 4],
    "data.fit": ["squash", "crop"],
}
Row = dict[str, str]


def rows_of(name: str, data: Path) -> Iterator[tuple[Path, Row, str]]:
    """Image, what a sheet says of it, and the group that must stay on one side."""
    if name == "blood-cells":
        for side in ("train", "val", "test"):
            with (data / "wbcatt_128" / f"pbc_attr_v1_{side}.csv").open() as file:
                for row in csv.DictReader(file):
                    row.pop("path")
                    image = data / "wbcatt_128" / row["label"].lower() / row["img_name"]
                    yield image, row, row["img_name"]
    elif name == "skin":
        with (data / "ham10000_200x150" / "HAM10000_metadata.csv").open() as file:
            for row in csv.DictReader(file):
                yield data / "ham10000_200x150" / "images" / f"{row['image_id']}.jpg", row, row["lesion_id"]
    else:
        root = data / "idrid_384" / "grading"
        for side, table in (("a. Training Set", "a.*Training*"), ("b. Testing Set", "b.*Testing*")):
            with next((root / "labels").glob(table)).open() as file:
                for row in csv.DictReader(file):
                    kept = {key.strip(): value for key, value in row.items() if key and key.strip()}
                    kept["Image name"] = f"{side[3:-4].lower()}_{kept['Image name']}"
                    image = root / "1. Original Images" / side / f"{row['Image name']}.jpg"
                    yield image, kept, kept["Image name"]


def make_folder(name: str, data: Path, size: int, seed: int, out: Path) -> Path:
    """A folder with a sheet of `size` training images and a given split."""
    folder = out / f"{name}-{size}-{seed}"
    if (folder / "sheet.csv").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "photos").mkdir(parents=True)
    by_group: dict[str, list[tuple[Path, Row]]] = {}
    for image, row, group in rows_of(name, data):
        by_group.setdefault(group, []).append((image, row))
    groups = sorted(by_group)
    random.Random(seed).shuffle(groups)
    wanted = {"train": size, "val": size // 2, "test": TEST}
    sheet: list[Row] = []
    for group in groups:
        side = next((side for side, number in wanted.items() if number > 0), None)
        if side is None:
            break
        wanted[side] -= len(by_group[group])
        for image, row in by_group[group]:
            named = next(iter(row)) if name == "blood-cells" else "Image name" if name == "idrid" else "image_id"
            photo = folder / "photos" / f"{Path(row[named]).stem}{image.suffix}"
            shutil.copy(image, photo)
            sheet.append({**row, named: photo.name, "split": side})
    with (folder / "sheet.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(sheet[0]))
        writer.writeheader()
        writer.writerows(sheet)
    return folder


def trials(number: int, seed: int) -> Iterator[dict[str, Any]]:
    """Settings drawn from the space; a frozen encoder keeps its tokens."""
    draw = random.Random(1000 + seed)
    for _ in range(number):
        tree: dict[str, Any] = {}
        for key, values in SPACE.items():
            *path, last = key.split(".")
            node = tree
            for step in path:
                node = node.setdefault(step, {})
            node[last] = draw.choice(values)
        yield tree


def train(recipe: Path, settings: dict[str, Any], out: Path, seed: int, *, test: bool) -> dict[str, Any]:
    tree = {**settings, "seed": seed, "metrics": {"bootstrap": 0, "rank_images": 0, "test": test}}
    tree["training"] = {**settings.get("training", {}), "threads": 1, "rank_every": 0}
    model = cl.train(recipe, tree, out=out, overwrite=True, quiet=True)
    splits = read_json(model.path / "metrics.json")["splits"]
    shutil.rmtree(out)
    sides = ("val", "test") if test else ("val",)
    return {f"{side}_balanced": splits[side]["class"]["balanced_accuracy"] for side in sides}


def run(data: Path, out: Path, sets: list[str], sizes: list[int], seeds: list[int], number: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    results = out / "results.jsonl"
    lines = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    done = {(line["set"], line["size"], line["seed"], line["what"]): line for line in lines}

    def once(name: str, size: int, seed: int, what: str, settings: dict[str, Any], test: bool) -> dict[str, Any]:
        key = (name, size, seed, what)
        if key not in done:
            folder = make_folder(name, data, size, seed, out / "folders")
            setup = out / "setups" / folder.name
            if not (setup / "recipe.yaml").exists():
                cl.init(folder, out=setup)
            found = train(setup / "recipe.yaml", settings, out / "run", seed, test=test)
            done[key] = {"set": name, "size": size, "seed": seed, "what": what, "settings": settings, **found}
            with results.open("a") as file:
                file.write(json.dumps(done[key]) + "\n")
        return done[key]

    for name in sets:
        for size in sizes:
            for seed in seeds:
                once(name, size, seed, "default", {}, True)
                tried = [
                    once(name, size, seed, f"trial {place}", settings, False)
                    for place, settings in enumerate(trials(number, seed))
                ]
                if tried:
                    best = max(tried, key=lambda line: line["val_balanced"])
                    once(name, size, seed, "best of trials", best["settings"], True)


def table(out: Path) -> None:
    """Mean over seeds of default and best of trials, and their difference in points."""
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    head = ("set", "training images", "seeds", "default", "best of trials", "default minus best")
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for name, size in sorted({(line["set"], line["size"]) for line in lines}):
        found = {
            what: {line["seed"]: line["test_balanced"] for line in lines if line["what"] == what and
                   (line["set"], line["size"]) == (name, size)}
            for what in ("default", "best of trials")
        }  # fmt: skip
        seeds = sorted(set(found["default"]) & set(found["best of trials"]))
        one, two = (np.array([found[what][seed] for seed in seeds]) for what in found)
        if len(seeds):
            difference = 100 * (one - two).mean()
            print(f"| {name} | {size} | {len(seeds)} | {one.mean():.3f} | {two.mean():.3f} | {difference:+.1f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="+", type=Path)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--sizes", nargs="+", type=int, default=[100, 300])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        table(given.places[0])
    else:
        run(given.places[0], given.places[1], given.sets, given.sizes, given.seeds, given.trials)
