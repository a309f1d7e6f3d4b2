"""Tables for the three data sets of this experiment, from their published folders.

    python evidence/ivq-rank/prepare.py --blood DIR --ham DIR --ham-split FILE --idrid DIR --out data/ivq-rank

    python evidence/ivq-rank/prepare.py --shrink data/ivq-rank --size 112

The second command is for many trainings on one set: it replaces the links by copies of the size the encoder reads, as
plain bytes, so that no training decodes anything; the pixels are those that it would have seen.

`--blood`: WBCAtt's tables with PBC's images in a folder per class. `--ham`: a folder of HAM10000's images,
`--ham-split`: a table image_id, lesion_id, dx, split. `--idrid`: its folder "B. Disease Grading". Images are linked,
not copied. IDRiD has no validation split: every fifth training image, drawn by class, becomes one. One photograph is in
both of its splits (training 118 = test 64): it is kept in test alone.
"""

import argparse
import csv
import random
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from PIL import Image

from conceptlens.data.images.read import resize_square

SHARED = "IDRiD_118"  # among the training images; the same photograph as IDRiD_064 of the test images
Row = dict[str, str]


def read(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return [{key.strip(): value for key, value in row.items() if key} for row in csv.DictReader(file)]


def write(out: Path, name: str, rows: list[Row], images: dict[str, Path]) -> None:
    """A table, and a folder of links to its images."""
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    for row in rows:
        link = folder / row["image"]
        if not link.exists():
            link.symlink_to(images[row["image"]].resolve())
    with (out / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    print(f"{name}: {len(rows)} images")


def blood(folder: Path) -> tuple[list[Row], dict[str, Path]]:
    rows, images = [], {}
    for split in ("train", "val", "test"):
        for row in read(folder / f"pbc_attr_v1_{split}.csv"):
            name, label = row.pop("img_name"), row.pop("label")
            row.pop("path")
            rows.append({"image": name, "class": label, "split": split, **row})
            images[name] = folder / label.lower() / name
    return rows, images


def ham(folder: Path, split: Path) -> tuple[list[Row], dict[str, Path]]:
    rows, images = [], {}
    for row in read(split):
        name = f"{row['image_id']}.jpg"
        rows.append({"image": name, "class": row["dx"], "split": row["split"], "group": row["lesion_id"]})
        images[name] = folder / name
    return rows, images


def idrid(folder: Path) -> tuple[list[Row], dict[str, Path]]:
    images: dict[str, Path] = {}
    by_class: dict[str, list[Row]] = defaultdict(list)
    tested: list[Row] = []
    for split, letter in (("train", "a. Training Set"), ("test", "b. Testing Set")):
        table = next((folder / "labels").glob(f"{letter[0]}.*.csv"), None) or next(
            (folder / "2. Groundtruths").glob(f"{letter[0]}.*.csv")
        )
        for row in read(table):
            if split == "train" and row["Image name"] == SHARED:
                continue
            source = folder / "1. Original Images" / letter / f"{row['Image name']}.jpg"
            name = f"{split}_{row['Image name']}.jpg"
            images[name] = source
            found = {"image": name, "class": row["Retinopathy grade"], "split": split}
            found["Risk of macular edema"] = row["Risk of macular edema"]
            (by_class[found["class"]] if split == "train" else tested).append(found)
    draw = random.Random(0)
    for members in by_class.values():
        for row in draw.sample(members, round(len(members) / 5)):
            row["split"] = "val"
    return [row for members in by_class.values() for row in members] + tested, images


def shrink_one(file: Path, size: int) -> None:
    with Image.open(file) as image:
        pixels = resize_square(image.convert("RGB"), size)
    small = file.with_suffix(".bmp")
    Image.fromarray(pixels.transpose(1, 2, 0)).save(small)
    small.rename(file)  # over the link, under its name: Pillow goes by content


def shrink(out: Path, size: int) -> None:
    files = [file for name in ("blood", "ham10000", "idrid") for file in sorted((out / name).iterdir())]
    with ProcessPoolExecutor() as pool:
        for _ in pool.map(shrink_one, files, [size] * len(files), chunksize=64):
            pass
    print(f"{len(files)} images of {size} × {size} pixels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("blood", "ham", "ham-split", "idrid", "out", "shrink"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--size", type=int, default=112)
    given = parser.parse_args()
    if given.shrink:
        shrink(given.shrink, given.size)
        return
    missing = [name for name in ("blood", "ham", "ham_split", "idrid", "out") if getattr(given, name) is None]
    if missing:
        parser.error(f"expected --{' --'.join(missing).replace('_', '-')}")
    write(given.out, "blood", *blood(given.blood))
    write(given.out, "ham10000", *ham(given.ham, given.ham_split))
    write(given.out, "idrid", *idrid(given.idrid))


if __name__ == "__main__":
    main()
