"""CUB-200-2011 as the tables that the recipes `cub/…` expect.

Attributes are those of the class, present where half or more of its annotators say so, as is usual since Koh et al.
(2020); with `image_labels` those of each image. A tenth of the training images of each class, drawn at random, is for
validation.
"""

import random
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from PIL import Image

from conceptlens.core.errors import UserError
from conceptlens.workflows.prepare.tables import lines, link, numbered, rows, write

VALIDATION, PRESENT = 0.1, 50.0  # share of a class's training images; percent of annotators
OUTSIDE = 0.1  # most boxes that may reach beyond their image; a few do in the published set
Size = tuple[str, str]  # width and height in pixels
CERTAINTY = {"1": 0.0, "2": 1 / 3, "3": 2 / 3, "4": 1.0}  # not visible, guessing, probably, definitely


def cub(folder: Path, out: Path, *, image_labels: bool = False, sizes: Path | None = None) -> dict[str, int]:
    """Write images.csv, boxes.csv, points.csv and sizes.csv, and link the images; returns how many of each split."""
    names, classes = numbered(folder / "images.txt"), numbered(folder / "image_class_labels.txt")
    titles, attributes = numbered(folder / "classes.txt"), numbered(folder / "attributes" / "attributes.txt")
    side = splits(classes, numbered(folder / "train_test_split.txt"))
    path = {image: f"images/{name}" for image, name in names.items()}
    header = ["image", "class", "split", *attributes.values()]
    if image_labels:
        labels, certainty = of_each_image(folder, list(names), list(attributes))
        header.append("certainty")
    else:
        labels, certainty = of_the_class(folder, classes), {}
    more = {image: [f"{weight:.4f}"] for image, weight in certainty.items()}
    known, boxes = original_sizes(folder, names, sizes), lines(folder / "bounding_boxes.txt")
    fitting(folder, boxes, known)
    link(out / "images", folder / "images")
    write(
        out / "images.csv",
        header,
        ([path[i], titles[classes[i]], side[i], *labels[i], *more.get(i, [])] for i in names),
    )
    write(out / "boxes.csv", ["image", "x", "y", "w", "h"], ([path[image], *box] for image, *box in boxes))
    parts = numbered(folder / "parts" / "parts.txt")
    points = (
        [path[image], parts[part].replace("_", " "), x, y]
        for image, part, x, y, visible in lines(folder / "parts" / "part_locs.txt")
        if visible == "1"
    )
    write(out / "points.csv", ["image", "part", "x", "y"], points)
    write(out / "sizes.csv", ["image", "width", "height"], ([path[image], *known[image]] for image in names))
    return {name: sum(each == name for each in side.values()) for name in ("train", "val", "test")}


def splits(classes: Mapping[str, str], training: Mapping[str, str]) -> dict[str, str]:
    """Image → train, val or test."""
    by_class = defaultdict(list)
    for image, label in classes.items():
        if training[image] == "1":
            by_class[label].append(image)
    draw = random.Random(0)
    held = {image for members in by_class.values() for image in draw.sample(members, round(VALIDATION * len(members)))}
    return {image: "val" if image in held else "train" if training[image] == "1" else "test" for image in classes}


def of_the_class(folder: Path, classes: Mapping[str, str]) -> dict[str, list[str]]:
    """Attributes of each image: those of its class."""
    shares = lines(folder / "attributes" / "class_attribute_labels_continuous.txt")
    table = [[str(int(float(value) >= PRESENT)) for value in row] for row in shares]
    return {image: table[int(label) - 1] for image, label in classes.items()}


def of_each_image(
    folder: Path, images: list[str], attributes: list[str]
) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Attributes of each image, and how certain its annotators were, 0 to 1.

    What was not visible is unknown, an empty cell. A table has one weight a row, so an image's is the mean of its known
    labels' weights (1/3, 2/3 and 1).
    """
    file = next((p for p in (folder / "attributes", folder) if (p / "image_attribute_labels.txt").exists()), None)
    if file is None:
        raise UserError(
            f"{folder} has no attributes/image_attribute_labels.txt, which --image-labels needs. It is part of "
            "CUB_200_2011.tgz; leave the option out for the attributes of each class."
        )
    place = {attribute: column for column, attribute in enumerate(attributes)}
    labels = {image: [""] * len(attributes) for image in images}
    weights: dict[str, list[float]] = {image: [] for image in images}
    for image, attribute, present, certainty, *_ in lines(file / "image_attribute_labels.txt"):
        if weight := CERTAINTY[certainty]:
            labels[image][place[attribute]] = present
            weights[image].append(weight)
    return labels, {image: sum(some) / len(some) if some else 0.0 for image, some in weights.items()}


def original_sizes(folder: Path, names: Mapping[str, str], sizes: Path | None) -> dict[str, Size]:
    """Width and height in whose pixels boxes and points are given."""
    if sizes is not None:
        listed = {row["image_id"]: (row["width"], row["height"]) for row in rows(sizes, "image_id", "width", "height")}
        if missing := [image for image in names if image not in listed]:
            raise UserError(f"{sizes} lacks {len(missing):,} of {len(names):,} images, as image_id {missing[0]}.")
        return listed
    found: dict[str, Size] = {}
    for image, name in names.items():
        with Image.open(folder / "images" / name) as opened:
            found[image] = (str(opened.width), str(opened.height))
    return found


def fitting(folder: Path, boxes: list[list[str]], sizes: Mapping[str, Size]) -> None:
    """Refuse images that are smaller copies: boxes and points would lie elsewhere in them."""
    beyond = 0
    for image, *box in boxes:
        x, y, width, height = map(float, box)
        wide, tall = map(float, sizes[image])
        beyond += x + width > wide + 1 or y + height > tall + 1
    if beyond > OUTSIDE * len(boxes):
        raise UserError(
            f"{folder}: {beyond:,} of {len(boxes):,} boxes reach beyond their images, so these are smaller copies of "
            "the published ones. Name a table image_id, width, height of the originals with --sizes."
        )
