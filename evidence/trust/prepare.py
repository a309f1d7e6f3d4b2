"""Tables for the maps, from published folders: HAM10000 and IDRiD with masks, CUB-200-2011 with boxes and parts.

Small balanced subsets, since every map costs a pass for each concept: at most so many images of each class and split.
IDRiD's 81 images with lesion masks are judged as other data; their grades are not used, but the same photographs may be
among those that were trained on.
CUB's concepts are those of a class: an attribute holds for a species if at least half of its images' raters said so.
"""

import csv
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

Row = dict[str, str]
SHARED = "IDRiD_118"  # among the training images; the same photograph as IDRiD_064 of the test images


def write(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    print(f"{path}: {len(rows)} rows")


def few(rows: Sequence[Row], most: int) -> list[Row]:
    """At most so many of each class and split, drawn with a fixed seed."""
    cells = defaultdict(list)
    for row in rows:
        cells[row["split"], row["class"]].append(row)
    draw = random.Random(0)
    return [row for cell in cells.values() for row in draw.sample(cell, min(most, len(cell)))]


def ham(folder: Path, split: Path, out: Path, *, most: int = 60) -> None:
    with split.open(newline="") as file:
        rows = [
            {
                "image": f"images/{row['image_id']}.jpg",
                "class": row["dx"],
                "split": row["split"],
                "group": row["lesion_id"],
            }
            for row in csv.DictReader(file)
        ]
    write(out / "ham.csv", few(rows, most))
    (out / "ham").unlink(missing_ok=True)
    (out / "ham").symlink_to(folder.resolve())


def idrid(folder: Path, out: Path) -> None:
    rows = []
    for split, letter in (("train", "a. Training Set"), ("test", "b. Testing Set")):
        with next((folder / "grading" / "labels").glob(f"{letter[0]}.*.csv")).open(
            newline="", encoding="utf-8-sig"
        ) as file:
            for row in csv.DictReader(file):
                if split == "train" and row["Image name"].strip() == SHARED:
                    continue
                name = f"grading/1. Original Images/{letter}/{row['Image name'].strip()}.jpg"
                rows.append({"image": name, "class": row["Retinopathy grade"].strip(), "split": split})
    draw = random.Random(0)
    for row in draw.sample([row for row in rows if row["split"] == "train"], 80):
        row["split"] = "val"
    write(out / "idrid.csv", rows)
    masked = sorted((folder / "segmentation" / "1. Original Images").glob("*/*.jpg"))
    write(out / "lesions.csv", [{"image": str(file.relative_to(folder)), "class": ""} for file in masked])
    (out / "idrid").unlink(missing_ok=True)
    (out / "idrid").symlink_to(folder.resolve())


def cub(folder: Path, sizes: Path, out: Path, *, species: int = 40, most: int = 12) -> None:
    """The first species only: two hundred would need more images than a core encodes in minutes."""

    def lines(name: str) -> list[list[str]]:
        return [line.split() for line in (folder / name).read_text().splitlines() if line.strip()]

    names, label = dict(lines("images.txt")), dict(lines("image_class_labels.txt"))
    classes = {number: name.partition(".")[2].replace("_", " ") for number, name in lines("classes.txt")}
    attributes = [line[1] for line in lines("attributes/attributes.txt")]
    chosen = [int(line[0]) for line in lines("attributes/cbm112_indices_0based.txt")]
    shares = [[float(value) for value in line] for line in lines("attributes/class_attribute_labels_continuous.txt")]
    rows = []
    for image, train in lines("train_test_split.txt"):
        number = int(label[image])
        if number > species:
            continue
        held = {attributes[place]: str(int(shares[number - 1][place] >= 50)) for place in chosen}
        split = "test" if train == "0" else "val" if int(image) % 5 == 0 else "train"
        rows.append({"image": f"images/{names[image]}", "class": classes[label[image]], "split": split, **held})
    rows = few(rows, most)
    kept = {row["image"] for row in rows}
    write(out / "cub.csv", rows)
    boxes = [["image", "x", "y", "w", "h"], *([f"images/{names[n]}", *box] for n, *box in lines("bounding_boxes.txt"))]
    write(out / "cub-boxes.csv", [dict(zip(boxes[0], row, strict=True)) for row in boxes[1:] if row[0] in kept])
    parts = {number: " ".join(words).replace("_", " ") for number, *words in lines("parts/parts.txt")}
    points = [
        {"image": f"images/{names[n]}", "part": parts[part], "x": x, "y": y, "visible": seen}
        for n, part, x, y, seen in lines("parts/part_locs.txt")
    ]
    write(out / "cub-points.csv", [row for row in points if row["image"] in kept])
    with sizes.open(newline="") as file:
        known = [
            {"image": f"images/{names[row['image_id']]}", "width": row["width"], "height": row["height"]}
            for row in csv.DictReader(file)
        ]
    write(out / "cub-sizes.csv", [row for row in known if row["image"] in kept])
    (out / "cub").unlink(missing_ok=True)
    (out / "cub").symlink_to(folder.resolve())
