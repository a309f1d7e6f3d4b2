"""Contact sheets of the built-in blood cells' masks, to be looked at by eye: cell in green, nucleus in yellow.

    python scripts/mask_sheets.py OUT [--seed 0] [--side 96] [--format webp]

`cells`: 16 random cells of each class, two rows a class in the order of their names; `off-center`: 40 random ones of
`blood-cells-off-center`.
"""

import argparse
from pathlib import Path

import numpy as np
from PIL import Image
from scipy import ndimage

from conceptlens.data.sources.blood_cells import BloodCells, OffCenterBloodCells

COLORS = {"object": (0, 160, 0), "nucleus": (255, 220, 0)}


def picture(source: BloodCells, index: int, side: int) -> Image.Image:
    pixels = np.array(source.read(index).resize((side, side), Image.Resampling.BICUBIC))
    annotation = source.annotation(index)
    for part, color in COLORS.items():
        if annotation is not None and part in annotation.masks:
            mask = Image.fromarray(annotation.masks[part].astype(np.uint8) * 255)
            inside = np.asarray(mask.resize((side, side), Image.Resampling.BILINEAR)) > 127
            pixels[inside & ~ndimage.binary_erosion(inside)] = color
    return Image.fromarray(pixels)


def sheet(source: BloodCells, chosen: list[int], side: int) -> Image.Image:
    page = Image.new("RGB", (8 * (side + 2), -(-len(chosen) // 8) * (side + 2)))
    for place, index in enumerate(chosen):
        page.paste(picture(source, index, side), (place % 8 * (side + 2), place // 8 * (side + 2)))
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--side", type=int, default=96)
    parser.add_argument("--format", default="webp")
    options = parser.parse_args()
    rng, cells, moved = np.random.default_rng(options.seed), BloodCells(), OffCenterBloodCells()
    order = np.argsort(cells.classes)
    each = [rng.choice(np.flatnonzero(cells.examples.labels == label), 16, replace=False) for label in order]
    pages = {"cells": sheet(cells, np.concatenate(each).tolist(), options.side)}
    pages["off-center"] = sheet(moved, rng.choice(len(moved), 40, replace=False).tolist(), options.side)
    for name, page in pages.items():
        page.save(options.out / f"{name}.{options.format}", quality=60)


if __name__ == "__main__":
    main()
