"""CUB-200-2011 as the tables that the recipes `cub/…` expect, from its published folder.

    python evidence/pf-cbm/prepare.py --cub CUB_200_2011 --out cub [--sizes FILE] [--limit N]

Writes images.csv (image, class, split and a column an attribute), boxes.csv, points.csv and sizes.csv, and links the
images. Attributes are those of the class: present where half or more of its annotators say so, as is usual since Koh et
al. (2020); so every image of a class has the same ones. A tenth of the training images of each class, drawn at random,
is for validation. `--sizes`: a table image_id, width, height of the original images, in whose pixels boxes and points
are given, where the folder holds smaller copies. `--limit`: for a try, the first N images of each split.
"""

import argparse
import csv
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from PIL import Image

VALIDATION, PRESENT = 0.1, 50.0  # share of a class's training images; percent of annotators


def lines(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text("utf-8").splitlines() if line.strip()]


def numbered(path: Path) -> dict[str, str]:
    """A file of `number name` a line."""
    return {number: " ".join(words) for number, *words in lines(path)}


def write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def splits(classes: dict[str, str], training: dict[str, str]) -> dict[str, str]:
    """Image → train, val or test."""
    by_class = defaultdict(list)
    for image, label in classes.items():
        if training[image] == "1":
            by_class[label].append(image)
    draw = random.Random(0)
    held = {image for members in by_class.values() for image in draw.sample(members, round(VALIDATION * len(members)))}
    return {image: "val" if image in held else "train" if training[image] == "1" else "test" for image in classes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("cub", "out", "sizes"):
        parser.add_argument(f"--{name}", type=Path, required=name != "sizes")
    parser.add_argument("--limit", type=int)
    given = parser.parse_args()
    cub, out = given.cub, given.out
    names, classes = numbered(cub / "images.txt"), numbered(cub / "image_class_labels.txt")
    titles, attributes = numbered(cub / "classes.txt"), numbered(cub / "attributes" / "attributes.txt")
    table = [
        [int(float(value) >= PRESENT) for value in row]
        for row in lines(cub / "attributes" / "class_attribute_labels_continuous.txt")
    ]
    side = splits(classes, numbered(cub / "train_test_split.txt"))
    chosen = list(names)
    if given.limit:
        seen: dict[str, int] = defaultdict(int)
        few = []
        for image in chosen:  # of a few classes
            if seen[side[image]] < given.limit and int(classes[image]) <= max(2, given.limit // 8):
                seen[side[image]] += 1
                few.append(image)
        chosen = few
    out.mkdir(parents=True, exist_ok=True)
    link = out / "images"
    if not link.exists():
        link.symlink_to((cub / "images").resolve())
    kept = set(chosen)
    write(
        out / "images.csv",
        ["image", "class", "split", *attributes.values()],
        (
            [f"images/{names[image]}", titles[classes[image]], side[image], *table[int(classes[image]) - 1]]
            for image in chosen
        ),
    )
    write(
        out / "boxes.csv",
        ["image", "x", "y", "w", "h"],
        ([f"images/{names[row[0]]}", *row[1:]] for row in lines(cub / "bounding_boxes.txt") if row[0] in kept),
    )
    parts = numbered(cub / "parts" / "parts.txt")
    write(
        out / "points.csv",
        ["image", "part", "x", "y"],
        (
            [f"images/{names[image]}", parts[part].replace("_", " "), x, y]
            for image, part, x, y, visible in lines(cub / "parts" / "part_locs.txt")
            if visible == "1" and image in kept
        ),
    )
    if given.sizes:
        with given.sizes.open(newline="") as file:
            sizes = {row["image_id"]: (row["width"], row["height"]) for row in csv.DictReader(file)}
    else:
        sizes = {image: Image.open(cub / "images" / names[image]).size for image in chosen}
    write(
        out / "sizes.csv", ["image", "width", "height"], ([f"images/{names[image]}", *sizes[image]] for image in chosen)
    )
    counts = {name: sum(side[image] == name for image in chosen) for name in ("train", "val", "test")}
    print(f"{out}: {counts}")


if __name__ == "__main__":
    main()
