"""Blood cells, skin lesions and fundus photographs: rows with a split, and where each image lies."""

import random
from collections import defaultdict
from pathlib import Path

from conceptlens.core.errors import UserError
from conceptlens.workflows.prepare.tables import Row, rows

Found = tuple[list[Row], dict[str, Path]]
SHARED = "IDRiD_118"  # among the training images; the same photograph as IDRiD_064 of the test images


def blood_cells(folder: Path) -> Found:
    """WBCAtt's tables, with PBC's images in a folder a class."""
    found: list[Row] = []
    images = {}
    for split in ("train", "val", "test"):
        for row in rows(folder / f"pbc_attr_v1_{split}.csv"):
            name, label = row.pop("img_name"), row.pop("label")
            row.pop("path", None)
            found.append({"image": name, "class": label, "split": split, **row})
            images[name] = folder / label.lower() / name
    return found, images


def ham10000(folder: Path, split: Path | None = None) -> Found:
    """HAM10000, split by lesion: as a table image_id, lesion_id, dx, split says, or 70, 10 and 20 % of each class."""
    needed = ("image_id", "lesion_id", "dx")
    known = rows(split, *needed, "split") if split else _by_lesion(rows(folder / "HAM10000_metadata.csv", *needed))
    found = [
        {"image": f"{row['image_id']}.jpg", "class": row["dx"], "split": row["split"], "group": row["lesion_id"]}
        for row in known
    ]
    places = {path.name: path for path in sorted(folder.glob("**/ISIC_*.jpg"))}
    missing = [row["image"] for row in found if row["image"] not in places]
    if missing:
        raise UserError(f"{folder} lacks {len(missing)} of {len(found)} images, as {missing[0]}.")
    return found, places


def _by_lesion(known: list[Row]) -> list[Row]:
    lesions: dict[str, list[str]] = defaultdict(list)
    for lesion, label in sorted({(row["lesion_id"], row["dx"]) for row in known}):
        lesions[label].append(lesion)
    draw, side = random.Random(0), {}
    for members in lesions.values():
        draw.shuffle(members)
        for place, lesion in enumerate(members):
            share = place / len(members)
            side[lesion] = "test" if share < 0.2 else "val" if share < 0.3 else "train"
    return [{**row, "split": side[row["lesion_id"]]} for row in known]


def idrid(folder: Path) -> Found:
    """IDRiD's folder "B. Disease Grading". A fifth of each grade's training images, drawn at random, validates."""
    images: dict[str, Path] = {}
    by_class: dict[str, list[Row]] = defaultdict(list)
    tested: list[Row] = []
    for split, letter in (("train", "a. Training Set"), ("test", "b. Testing Set")):
        tables = [*folder.glob(f"labels/{letter[0]}.*.csv"), *folder.glob(f"2. Groundtruths/{letter[0]}.*.csv")]
        if not tables:
            raise UserError(f"{folder} has no table of grades. Expected IDRiD's folder `B. Disease Grading`.")
        for row in rows(tables[0]):
            label = row["Image name"].strip()
            if split == "train" and label == SHARED:
                continue
            name = f"{split}_{label}.jpg"
            images[name] = folder / "1. Original Images" / letter / f"{label}.jpg"
            found = {"image": name, "class": row["Retinopathy grade"], "split": split}
            found["Risk of macular edema"] = row["Risk of macular edema"]
            (by_class[found["class"]] if split == "train" else tested).append(found)
    draw = random.Random(0)
    for members in by_class.values():
        for row in draw.sample(members, round(len(members) / 5)):
            row["split"] = "val"
    return [row for members in by_class.values() for row in members] + tested, images
