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
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from PIL import Image

from conceptlens.data.images.read import resize_square
from conceptlens.workflows.prepare.prepare import write_set
from conceptlens.workflows.prepare.sets import blood_cells, ham10000, idrid


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
    found = {
        "blood": blood_cells(given.blood),
        "ham10000": ham10000(given.ham, given.ham_split),
        "idrid": idrid(given.idrid),
    }
    for name, rows in found.items():
        print(f"{name}: {write_set(given.out, name, rows)}")


if __name__ == "__main__":
    main()
