"""Regions for the comparison: masks of HAM10000's test images, IDRiD's 81 images with lesion masks, CUB in a folder.

    python evidence/ivq-rank/prepare.py …  --out DATA          # blood cells, HAM10000, IDRiD; then --shrink DATA
    python evidence/pf-cbm/prepare.py --cub DIR --out DATA/cub # CUB-200-2011
    python evidence/ivq-table1/prepare.py --data DATA --ham-masks DIR --idrid DIR [--size 112]

`--ham-masks`: a folder of ISIC_…_segmentation.png. `--idrid`: its folder "A. Segmentation", with "1. Original Images"
and "2. All Segmentation Groundtruths". Images and masks are brought to the square that the encoder reads, so that they
fit the shrunk images. IDRiD's masked photographs may be among the graded ones that are trained on.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from PIL import Image

LESIONS = {"microaneurysms": "MA", "haemorrhages": "HE", "hard exudates": "EX", "soft exudates": "SE"}


def shrink_mask(source: Path, target: Path, size: int) -> None:
    """A mask at another size; a cell is inside if half of it is, and a small lesion keeps its brightest cell."""
    with Image.open(source) as image:
        inside = np.asarray(image.convert("L")) > 0
    shares = np.asarray(Image.fromarray(inside.astype(np.float32)).resize((size, size), Image.Resampling.BOX))
    if inside.any():
        target.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.where(shares >= min(0.5, float(shares.max())), 255, 0).astype(np.uint8)).save(target)


def ham(data: Path, masks: Path, size: int, limit: int | None) -> None:
    with (data / "ham10000.csv").open(newline="") as file:
        names = [Path(row["image"]).stem for row in csv.DictReader(file) if row["split"] != "val"]
    chosen = names[:: max(1, len(names) // limit)] if limit else names
    for name in chosen:
        shrink_mask(masks / f"{name}_segmentation.png", data / "ham-masks" / f"{name}.png", size)
    print(f"ham-masks: {len(chosen)}")


def idrid(data: Path, folder: Path, size: int, limit: int | None) -> None:
    images = sorted((folder / "1. Original Images").glob("*/*.jpg"))[:limit]
    (data / "lesions").mkdir(parents=True, exist_ok=True)
    for source in images:
        with Image.open(source) as image:
            image.convert("RGB").resize((size, size), Image.Resampling.BICUBIC).save(data / "lesions" / source.name)
        for lesion, letters in LESIONS.items():
            for mask in (folder / "2. All Segmentation Groundtruths").glob(f"*/*/{source.stem}_{letters}.*"):
                shrink_mask(mask, data / "lesion-masks" / f"{source.stem}_{lesion.replace(' ', '-')}.png", size)
    with (data / "lesions.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", "class"])
        writer.writerows([source.name, ""] for source in images)
    print(f"lesions: {len(images)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--ham-masks", type=Path)
    parser.add_argument("--idrid", type=Path)
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--limit", type=int, help="for a try: so many masks")
    given = parser.parse_args()
    if given.ham_masks:
        ham(given.data, given.ham_masks, given.size, given.limit)
    if given.idrid:
        idrid(given.data, given.idrid, given.size, given.limit)


if __name__ == "__main__":
    main()
