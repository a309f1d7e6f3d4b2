"""Small copies of prepared sets, for a machine that cannot read the originals: squares of 112 pixels as WebP.

    python evidence/ivq-rank/travel.py PREPARED OUT.zip blood=80 ham10000=80 idrid=90 [cub=75]   # a set and its quality

`PREPARED` is the folder of `conceptlens data prepare`. `python -m zipfile -e OUT.zip WORK` unpacks tables and
images. Prints bytes and how far pixels move from those that the encoder would have read (mean, of 255).
"""

import argparse
import csv
import io
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

from conceptlens.data.images.read import resize_square

SIDE = 112


def small(file: Path, quality: int) -> tuple[bytes, float]:
    with Image.open(file) as image:
        pixels = resize_square(image.convert("RGB"), SIDE).transpose(1, 2, 0)
    data = io.BytesIO()
    Image.fromarray(pixels).save(data, "WEBP", quality=quality, method=4)
    again = np.asarray(Image.open(data).convert("RGB"))
    return data.getvalue(), float(np.abs(again.astype(int) - pixels).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prepared", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("sets", nargs="+")
    given = parser.parse_args()
    with zipfile.ZipFile(given.out, "w") as archive:
        for name, quality in (words.split("=") for words in given.sets):
            table = Path("cub/images.csv") if name == "cub" else Path(f"{name}.csv")
            archive.write(given.prepared / table, table, zipfile.ZIP_DEFLATED)
            moved, count = [], 0
            with (given.prepared / table).open(newline="") as file:
                images = [Path(name) / row["image"] for row in csv.DictReader(file)]
            for image in images:
                data, change = small(given.prepared / image, int(quality))
                archive.writestr(str(image), data)
                moved.append(change)
                count += len(data)
            print(f"{name}: {len(moved)} images, {count:,} bytes, pixels moved by {np.mean(moved):.2f}", flush=True)


if __name__ == "__main__":
    main()
