"""Folders with a sheet, as a person has them, drawn from published image sets: training images, validation, test.

Test images are those of the official test side, where there is one; validation images come from the official validation
side or else from the training side. Groups (a lesion's images) stay together.
"""

import csv
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

SETS = ("blood-cells", "idrid", "skin", "birds")
SIZES, SEEDS = (100, 300), (0, 1, 2, 3, 4)
TEST, SPECIES = 500, 20
PRESENT = 50  # percent of the raters who saw an attribute in images of a species
ENCODERS = ("builtin/vit", "builtin/efficientnet-lite0")
Row = dict[str, str]
Block = tuple[str, int, int]  # set, training images, seed
Found = tuple[Path, Row, str, str]  # image, what a sheet says of it, its group, its official side


def rows_of(name: str, data: Path, seed: int) -> Iterator[Found]:
    """All images of a set; the first cell of a row names the image."""
    if name == "blood-cells":
        root = data / "wbcatt_128"
        for side in ("train", "val", "test"):
            for row in _table(root / f"pbc_attr_v1_{side}.csv"):
                row.pop("path")
                row = {"img_name": row.pop("img_name"), **row}
                yield root / row["label"].lower() / row["img_name"], row, row["img_name"], side
    elif name == "skin":
        sides = {row["image_id"]: row["split"] for row in _table(data / "ham10000_split.csv")}
        for row in _table(data / "ham10000_200x150" / "HAM10000_metadata.csv"):
            row = {"image_id": row.pop("image_id"), **row}
            image = data / "ham10000_200x150" / "images" / f"{row['image_id']}.jpg"
            yield image, row, row["lesion_id"], sides[row["image_id"]]
    elif name == "idrid":
        root = data / "idrid_384" / "grading"
        for side, folder in (("train", "a. Training Set"), ("test", "b. Testing Set")):
            for row in _table(next((root / "labels").glob(f"{folder[0]}.*.csv"))):
                kept = {key.strip(): value for key, value in row.items() if key and key.strip()}
                image = root / "1. Original Images" / folder / f"{kept['Image name']}.jpg"
                kept["Image name"] = f"{side}_{kept['Image name']}"
                yield image, kept, kept["Image name"], side
    else:
        yield from _birds(data / "cub_144", seed)


def _birds(root: Path, seed: int) -> Iterator[Found]:
    """Some species, and the 112 usual attributes of each as columns: a class table, as CUB has no more."""

    def lines(name: str) -> dict[str, str]:
        return dict(line.split(maxsplit=1) for line in (root / name).read_text().splitlines() if line.strip())

    species, names, train = lines("image_class_labels.txt"), lines("images.txt"), lines("train_test_split.txt")
    called = {key: word.split(".")[-1].strip() for key, word in lines("classes.txt").items()}
    words = [
        line.split(maxsplit=1)[-1].strip() for line in (root / "attributes/attributes.txt").read_text().splitlines()
    ]
    rows = (root / "attributes/class_attribute_labels_continuous.txt").read_text().splitlines()
    percent = {str(place): [float(value) for value in row.split()] for place, row in enumerate(rows, start=1)}
    usual = [int(word) for word in (root / "attributes/cbm112_indices_0based.txt").read_text().split()]
    chosen = random.Random(seed).sample(sorted(called, key=int), SPECIES)
    for key, label in species.items():
        if label in chosen:
            said = {words[place]: "yes" if percent[label][place] >= PRESENT else "no" for place in usual}
            image = root / "images" / names[key].strip()
            yield (
                image,
                {"image": image.name, "species": called[label], **said},
                key,
                "train" if train[key] == "1" else "test",
            )


def _table(path: Path) -> Iterator[Row]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        yield from csv.DictReader(file)


def drawn(name: str, data: Path, size: int, seed: int) -> Iterator[tuple[Path, Row]]:
    """The images of a folder and their rows of the sheet, the side among them; the first cell names the image."""
    groups: dict[str, dict[str, list[tuple[Path, Row]]]] = {"train": {}, "val": {}, "test": {}}
    for image, row, group, side in rows_of(name, data, seed):
        groups[side].setdefault(group, []).append((image, row))
    pool = {side: sorted(found) for side, found in groups.items()}
    for names in pool.values():
        random.Random(seed).shuffle(names)
    wanted = {"train": size, "val": size // 2, "test": TEST}
    for side, number in wanted.items():
        source = side if pool[side] else "train"
        while number > 0 and pool[source]:
            for image, row in groups[source][pool[source].pop(0)]:
                yield image, {**row, "split": side}
                number -= 1


def make_folder(name: str, data: Path, size: int, seed: int, out: Path) -> Path:
    """A folder with a sheet of `size` training images and a given split, photographs beside it."""
    folder = out / f"{name}-{size}-{seed}"
    if (folder / "sheet.csv").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "photos").mkdir(parents=True)
    sheet: list[Row] = []
    for image, row in drawn(name, data, size, seed):
        named = next(iter(row))
        photo = folder / "photos" / f"{Path(row[named]).stem}{image.suffix}"
        shutil.copy(image, photo)
        sheet.append({**row, named: photo.name})
    with (folder / "sheet.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(sheet[0]))
        writer.writeheader()
        writer.writerows(sheet)
    return folder


def setup(block: Block, data: Path, work: Path) -> Path:
    """The recipe that `init` writes for a block's folder."""
    import conceptlens as cl

    name, size, seed = block
    folder = make_folder(name, data, size, seed, work / "folders")
    place = work / "setups" / folder.name
    if not (place / "recipe.yaml").exists():
        made = cl.init(folder, out=place, class_column="species" if name == "birds" else "")
        if not made.check.ok:
            raise SystemExit(made.text())
    return place / "recipe.yaml"
