"""Build the package file blood-cells.zip from WBCAtt.

Usage:
    python scripts/build_blood_cells.py SOURCE OUT

SOURCE holds `pbc_attr_v1_train.csv`, `…_val.csv`, `…_test.csv` (WBCAtt) and a folder of images per class in lower case
(PBC, Acevedo et al. 2020). Every image keeps its official split; each class gives equally many to each split; within a
class the share of every attribute value is kept as far as possible. The same source and seed give the same bytes.
"""

import argparse
import csv
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from conceptlens.core.files import write_bytes

ATTRIBUTES = (
    "cell_size",
    "cell_shape",
    "nucleus_shape",
    "nuclear_cytoplasmic_ratio",
    "chromatin_density",
    "cytoplasm_vacuole",
    "cytoplasm_texture",
    "cytoplasm_colour",
    "granule_type",
    "granule_colour",
    "granularity",
)
PER_CLASS = {"train": 230, "val": 40, "test": 100}
SIDE = 96
QUALITY = 85


def choose(rows: list[dict[str, str]], quota: int, rng: np.random.Generator) -> list[dict[str, str]]:
    """Pick rows one by one, each time the one whose attribute values are still shortest of their share."""
    if len(rows) <= quota:
        return rows
    values = sorted({(name, row[name]) for row in rows for name in ATTRIBUTES})
    has = np.array([[row[name] == value for name, value in values] for row in rows], dtype=np.float64)
    # A value that is rare in the class still gets a few images.
    wanted = np.maximum(has.mean(0) * quota, np.minimum(has.sum(0), 2))
    taken = np.zeros(len(values))
    free = np.ones(len(rows), dtype=bool)
    tie_break = rng.random(len(rows)) * 1e-6
    chosen = []
    for _ in range(quota):
        need = has @ (np.maximum(wanted - taken, 0) / wanted) + tie_break
        best = int(np.argmax(np.where(free, need, -1)))
        free[best] = False
        taken += has[best]
        chosen.append(rows[best])
    return chosen


def encode(path: Path) -> bytes:
    """The image as a small JPEG, longest side 96 pixels."""
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    scale = SIDE / max(image.size)
    size = (round(image.width * scale), round(image.height * scale))
    buffer = io.BytesIO()
    image.resize(size, Image.Resampling.LANCZOS).save(
        buffer, "JPEG", quality=QUALITY, optimize=True, subsampling="4:2:0"
    )
    return buffer.getvalue()


def entry(name: str, compress: int) -> zipfile.ZipInfo:
    """A zip entry with a fixed date, so that the file's bytes depend on its content only."""
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.compress_type = compress
    info.external_attr = 0o644 << 16
    return info


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="folder with WBCAtt's tables and the images in a folder per class")
    parser.add_argument("out", type=Path, help="the zip file to write")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    rng = np.random.default_rng(options.seed)
    chosen: list[tuple[str, dict[str, str]]] = []
    for split, quota in PER_CLASS.items():
        with (options.source / f"pbc_attr_v1_{split}.csv").open(newline="", encoding="utf-8") as file:
            rows = sorted(csv.DictReader(file), key=lambda row: row["img_name"])
        for label in sorted({row["label"] for row in rows}):
            picked = choose([row for row in rows if row["label"] == label], quota, rng)
            chosen += [(split, row) for row in sorted(picked, key=lambda row: row["img_name"])]
        every = {(name, row[name]) for row in rows for name in ATTRIBUTES}
        kept = {(name, row[name]) for side, row in chosen if side == split for name in ATTRIBUTES}
        if every != kept:
            sys.exit(f"{split}: values without an image: {sorted(every - kept)}")

    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["image", "class", "split", *ATTRIBUTES])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for split, row in chosen:
            writer.writerow([row["img_name"], row["label"], split, *(row[name] for name in ATTRIBUTES)])
        archive.writestr(entry("labels.csv", zipfile.ZIP_DEFLATED), table.getvalue())
        for _, row in chosen:
            path = options.source / row["label"].lower() / row["img_name"]
            archive.writestr(entry(row["img_name"], zipfile.ZIP_STORED), encode(path))
    write_bytes(options.out, buffer.getvalue())
    print(f"{options.out}: {len(chosen)} images, {len(buffer.getvalue()) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
