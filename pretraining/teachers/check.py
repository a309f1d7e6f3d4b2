"""Do the converted teachers still know ImageNet, and how small may an input be? Accuracy over all 1,000 classes.

    python -m pretraining.teachers.check --teachers DIR [--samples DIR] [--imagenette DIR] [--tiny DIR] [--out FILE]

    samples     a flat folder of WNID_name.JPEG; the central 7/8 of each photograph
    imagenette  a folder WNID/*.JPEG of square images
    tiny        Tiny-ImageNet: val/val_annotations.txt and val/images, 64 px, tried at every one of --sizes

Sets of this kind may hold images the teachers were trained on; what is compared is sizes and teachers, within a set.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.core.files import write_json
from pretraining.command import command
from pretraining.imagenet import WNIDS
from pretraining.teachers import Teacher, load_teacher

CLASSIFIERS = ("resnet50", "efficientnet_lite0")
CROP = 0.875  # of the shorter side, the customary center crop
CLASS = {wnid: place for place, wnid in enumerate(WNIDS)}

Labeled = list[tuple[Path, int]]


class Row(NamedTuple):
    """One measurement."""

    set: str
    teacher: str
    size: int
    images: int
    top1: float
    top5: float
    cross_entropy: float
    images_per_second: float


def _spread(images: Labeled, limit: int, where: Path) -> Labeled:
    """At most `limit` images, evenly spread over the list."""
    if not images:
        raise UserError(f"{where}: found no images named or filed by a wnid of ImageNet's 1,000 classes.")
    step = max(len(images) / limit, 1.0)
    return [images[int(place * step)] for place in range(min(limit, len(images)))]


def list_samples(folder: Path, limit: int) -> Labeled:
    """WNID_name.JPEG files, by their names."""
    files = sorted(folder.glob("n*_*.JPEG"))
    known = [(file, CLASS[wnid]) for file in files if (wnid := file.name.split("_")[0]) in CLASS]
    return _spread(known, limit, folder)


def list_folders(folder: Path, limit: int) -> Labeled:
    """WNID/*.JPEG files, by their folders."""
    files = sorted(folder.glob("n*/*.JPEG"))
    return _spread([(file, CLASS[file.parent.name]) for file in files if file.parent.name in CLASS], limit, folder)


def list_tiny(folder: Path, limit: int) -> Labeled:
    """Tiny-ImageNet's validation images, by its table (file, wnid, box)."""
    table = folder / "val" / "val_annotations.txt"
    try:
        lines = [line.split("\t") for line in table.read_text("utf-8").splitlines()]
    except OSError as error:
        raise UserError(f"{table}: {error.strerror}; expected the unpacked Tiny-ImageNet.") from None
    known = [(table.parent / "images" / line[0], CLASS[line[1]]) for line in lines if line[1] in CLASS]
    return _spread(known, limit, folder)


def read_square(path: Path, side: int, crop: float = 1.0) -> Tensor:
    """The center of an image, a square of `crop` times its shorter side, as (3, side, side) in [0, 1]."""
    with Image.open(path) as file:
        image = file.convert("RGB")
    reach = crop * min(image.size) / 2
    x, y = image.width / 2, image.height / 2
    square = image.resize((side, side), Image.Resampling.BILINEAR, box=(x - reach, y - reach, x + reach, y + reach))
    return torch.from_numpy(np.array(square)).permute(2, 0, 1).float() / 255


@torch.no_grad()
def measure(teacher: Teacher, name: str, images: Tensor, classes: Tensor, *, batch: int = 32) -> Row:
    """A teacher's accuracy on (n, 3, H, W) of known classes (n,), at its present input size."""
    started = time.perf_counter()
    parts = []
    for part in torch.split(images, batch):
        said = teacher(part.to(next(teacher.parameters()).device)).logits
        if said is None:
            raise UserError(f"{teacher.name} is no classifier; choose from {', '.join(CLASSIFIERS)}.")
        parts.append(said.float().cpu())
    logits = torch.cat(parts)
    seconds = time.perf_counter() - started
    hits = logits.topk(5).indices == classes[:, None]
    return Row(
        set=name,
        teacher=teacher.name,
        size=teacher.size,
        images=len(images),
        top1=round(hits[:, 0].float().mean().item(), 4),
        top5=round(hits.any(1).float().mean().item(), 4),
        cross_entropy=round(F.cross_entropy(logits, classes).item(), 4),
        images_per_second=round(len(images) / seconds, 1),
    )


@command
def main(arguments: Sequence[str] | None) -> None:
    """Measure, print a table, write it as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m pretraining.teachers.check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--teachers", type=Path, required=True, metavar="DIR", help="the converter's output")
    for name in ("samples", "imagenette", "tiny"):
        parser.add_argument(f"--{name}", type=Path, metavar="DIR")
    parser.add_argument("--limits", type=int, nargs=3, default=(1000, 500, 400), help="images of each set")
    parser.add_argument("--sizes", type=int, nargs="+", default=(112, 128, 160, 192, 224), help="tried on tiny")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, metavar="FILE")
    chosen = parser.parse_args(arguments)
    plans = {
        "samples": (chosen.samples, list_samples, chosen.limits[0], 224, CROP, [224]),
        "imagenette": (chosen.imagenette, list_folders, chosen.limits[1], 224, 1.0, [224]),
        "tiny": (chosen.tiny, list_tiny, chosen.limits[2], 64, 1.0, chosen.sizes),
    }
    rows: list[Row] = []
    teachers = [load_teacher(name, chosen.teachers).to(chosen.device) for name in CLASSIFIERS]
    print(f"{'set':<12}{'teacher':<20}{'size':>5}{'images':>8}{'top-1':>8}{'top-5':>8}{'CE':>8}{'im/s':>8}")
    for name, (folder, listing, limit, side, crop, sizes) in plans.items():
        if folder is None:
            continue
        files = listing(folder, limit)
        images = torch.stack([read_square(file, side, crop) for file, _ in files])
        classes = torch.tensor([place for _, place in files])
        for teacher in teachers:
            for size in sizes:
                teacher.size = size
                row = measure(teacher, name, images, classes)
                rows.append(row)
                print(
                    f"{row.set:<12}{row.teacher:<20}{row.size:>5}{row.images:>8}{row.top1:>8.3f}{row.top5:>8.3f}"
                    f"{row.cross_entropy:>8.3f}{row.images_per_second:>8.1f}",
                    flush=True,
                )
    if chosen.out is not None:
        write_json(chosen.out, {"rows": [row._asdict() for row in rows]})


if __name__ == "__main__":
    sys.exit(main())
