"""Masks of white cells and their nuclei: for the package's blood cells, or for a folder of images.

Usage:
    python scripts/blood_cell_masks.py builtin OUT.npz              the package file blood-cell-masks.npz
    python scripts/blood_cell_masks.py SOURCE OUT                   masks of WBCAtt's images
    python scripts/blood_cell_masks.py SOURCE OUT --off-center      and the cells pasted off center

SOURCE as for build_blood_cells.py: `pbc_attr_v1_{train,val,test}.csv` and a folder of images per class in lower case.
OUT gets `masks/{object,nucleus,cytoplasm}/NAME.png`, `labels.csv` (WBCAtt's tables as one) and `data.yaml`, a recipe's
`data` section that names them; with --off-center the same in OUT/off-center, with `images`. How cells are found:
`cell_segmentation`. Images without a nucleus that could be found have no mask and are not pasted.
"""

import argparse
import csv
import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
from cell_segmentation import Floats, color_odds, prepare, segment
from PIL import Image

from conceptlens.core.files import dump_yaml, write_bytes, write_text
from conceptlens.data.images.off_center import REGIONS, paste_off_center, region_masks, small_cells
from conceptlens.data.sources.blood_cells import BloodCells

SIDE = 96  # images are segmented at most at this size
SAMPLE = 300  # images from which the odds of colors are learned
Labels = npt.NDArray[np.uint8]
Read = Callable[[int], Image.Image]


def _at_most(image: Image.Image) -> npt.NDArray[np.uint8]:
    scale = min(1.0, SIDE / max(image.size))
    size = (round(image.width * scale), round(image.height * scale))
    return np.asarray(image if scale == 1 else image.resize(size, Image.Resampling.BILINEAR))


def _labels(work: tuple[Image.Image, Floats]) -> Labels:
    image, odds = work
    smear = prepare(_at_most(image))
    if smear is None:
        return np.zeros((image.height, image.width), dtype=np.uint8)
    found = segment(smear, odds)
    return np.asarray(Image.fromarray(found).resize(image.size, Image.Resampling.NEAREST))


def label_maps(read: Read, count: int, workers: int) -> Iterator[Labels]:
    """The label map of each image, in order."""
    chosen = np.unique(np.linspace(0, count - 1, min(count, SAMPLE)).astype(int))
    smears = (prepare(_at_most(read(index))) for index in chosen.tolist())
    odds = color_odds(smear for smear in smears if smear is not None)
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(_labels, ((read(index), odds) for index in range(count)), chunksize=8)


def write_builtin(out: Path, workers: int) -> None:
    """The package file: label maps of all images, padded to squares, in the order of labels.csv."""
    cells = BloodCells()
    maps = np.zeros((len(cells), SIDE, SIDE), dtype=np.uint8)
    for index, labels in enumerate(label_maps(cells.read, len(cells), workers)):
        maps[index, : labels.shape[0], : labels.shape[1]] = labels
    buffer = io.BytesIO()
    np.savez_compressed(buffer, labels=maps)
    write_bytes(out, buffer.getvalue())
    print(f"{out}: {len(maps)} images, {len(buffer.getvalue()) / 1e6:.2f} MB, {(maps.max((1, 2)) == 0).sum()} empty")


def read_rows(source: Path) -> list[dict[str, str]]:
    """WBCAtt's tables as one, with `image` (its path below the source), `class` and `split`."""
    rows = []
    for split in ("train", "val", "test"):
        with (source / f"pbc_attr_v1_{split}.csv").open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                name, label = row.pop("img_name"), row.pop("label")
                row.pop("path", None)
                rows.append({"image": f"{label.lower()}/{name}", "class": label, "split": split, **row})
    return rows


def _png(mask: npt.NDArray[np.bool_]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(mask).save(buffer, "PNG")
    return buffer.getvalue()


def write_folder(source: Path, out: Path, *, off_center: bool, workers: int) -> None:
    rows = read_rows(source)

    def read(index: int) -> Image.Image:
        with Image.open(source / rows[index]["image"]) as file:
            return file.convert("RGB")

    maps = list(label_maps(read, len(rows), workers))
    found = [index for index, labels in enumerate(maps) if labels.any()]
    for index in found:
        _write_masks(out, rows[index]["image"], maps[index])
    _write_data(out, rows, images=source)
    print(f"{out}: {len(found)} of {len(rows)} images have masks")
    if not off_center:
        return
    moved, donors = out / "off-center", _donors(rows, maps, found)
    for index in found:
        own = donors[rows[index]["split"]]

        def donor(place: int, own: Sequence[int] = own) -> tuple[Image.Image, Labels]:
            return read(own[place]), maps[own[place]]

        name = rows[index]["image"]
        image, labels = paste_off_center(name, read(index), maps[index], donor, len(own))
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=92)
        write_bytes(moved / "images" / name, buffer.getvalue())
        _write_masks(moved, name, labels)
    _write_data(moved, [rows[index] for index in found], images=moved / "images")
    print(f"{moved}: {len(found)} images")


def _write_masks(out: Path, name: str, labels: Labels) -> None:
    for part, mask in region_masks(labels).items():
        write_bytes(out / "masks" / part / f"{Path(name).stem}.png", _png(mask))


def _write_data(out: Path, rows: Sequence[dict[str, str]], *, images: Path) -> None:
    """labels.csv, and a recipe's `data` section that names it and the masks."""
    table = io.StringIO()
    writer = csv.DictWriter(table, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_text(out / "labels.csv", table.getvalue())
    files = {part: f"{part}/{{name}}.png" for part in REGIONS}
    regions = {"masks": str((out / "masks").resolve()), "mask_files": files}
    section = {"source": str((out / "labels.csv").resolve()), "images": str(images.resolve()), "regions": regions}
    write_text(out / "data.yaml", dump_yaml({"data": section, "concepts": "blood-cells"}))


def _donors(rows: Sequence[dict[str, str]], maps: Sequence[Labels], found: Sequence[int]) -> dict[str, list[int]]:
    """Images of each split whose background is used: those with small cells."""
    splits = {rows[index]["split"] for index in found}
    own = {split: [index for index in found if rows[index]["split"] == split] for split in splits}
    return {split: [mine[at] for at in small_cells([maps[index] for index in mine])] for split, mine in own.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="WBCAtt's folder, or `builtin`")
    parser.add_argument("out", type=Path)
    parser.add_argument("--off-center", action="store_true", help="paste each cell at a random place")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    if options.source == "builtin":
        write_builtin(options.out, options.workers)
    else:
        write_folder(Path(options.source), options.out, off_center=options.off_center, workers=options.workers)


if __name__ == "__main__":
    main()
