"""Pack photographs of ImageNet classes into tar files that are small enough to send.

    python evidence/gig/pack.py --out PACK [--samples DIR] [--imagenette DIR] [--tiny DIR] [--numbers 1000 9000 20000]
                                [--quality 88] [--weights resnet50.safetensors]

    samples     a flat folder of WNID_name.JPEG: the central 7/8 of each, 224 px
    imagenette  train/WNID and val/WNID of square images: 160 px
    tiny        Tiny-ImageNet: train/WNID/images, 64 px, as they are

A member is SET/CLASS/NAME.jpg, CLASS from 0 to 999. Sets are spread evenly over the tar files, so that any of them is a
fair share of all. imagenette's `val` is a set of its own and only used to see what the network knows.
`--weights` writes the network beside them in 8 bits a weight, a scale for each output channel: a quarter of the bytes.
"""

import argparse
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

CLASSES = Path(__file__).parents[2] / "pretraining" / "imagenet_classes.tsv"
SIDES = {"samples": 224, "imagenette": 160, "imagenette-val": 160, "tiny": 64}
CROP = 0.875  # of the shorter side, for whole photographs
MOST = 28e6  # bytes of a tar file


def class_numbers() -> dict[str, int]:
    lines = [line for line in CLASSES.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    return {line.split("\t")[0]: number for number, line in enumerate(lines)}


def listing(name: str, folder: Path) -> list[tuple[str, Path]]:
    """Files with their wnid."""
    if name == "samples":
        return [(file.name.split("_")[0], file) for file in sorted(folder.glob("n*_*.JPEG"))]
    if name == "tiny":
        return [(file.name.split("_")[0], file) for file in sorted(folder.glob("train/*/images/*.JPEG"))]
    part = "val" if name.endswith("val") else "train"
    return [(file.parent.name, file) for file in sorted(folder.glob(f"{part}/n*/*.JPEG"))]


def some(files: list[tuple[str, Path]], number: int) -> list[tuple[str, Path]]:
    """Evenly spread."""
    step = max(len(files) / max(number, 1), 1.0)
    return [files[int(place * step)] for place in range(min(number, len(files)))]


def eight_bits(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Kernels as whole numbers from -127 to 127 with a scale of each output channel; biases as they are."""
    found = {}
    for name, value in weights.items():
        if value.ndim < 2:
            found[name] = value
            continue
        scale = value.float().flatten(1).abs().amax(1).clamp_min(1e-12) / 127
        found[name] = (value.float() / scale.view(-1, *[1] * (value.ndim - 1))).round().to(torch.int8)
        found[f"{name}.scale"] = scale
    return found


def jpeg(name: str, file: Path, quality: int) -> bytes:
    if name == "tiny":
        return file.read_bytes()
    with Image.open(file) as opened:
        image = opened.convert("RGB")
    reach = (CROP if name == "samples" else 1.0) * min(image.size) / 2
    x, y = image.width / 2, image.height / 2
    side = SIDES[name]
    square = image.resize((side, side), Image.Resampling.BICUBIC, box=(x - reach, y - reach, x + reach, y + reach))
    buffer = io.BytesIO()
    square.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def members(given: argparse.Namespace) -> Iterator[tuple[float, str, Path, str]]:
    """Place among all (0 to 1), member name, file, set."""
    numbers = class_numbers()
    wanted = dict(zip(("samples", "imagenette", "tiny"), given.numbers, strict=True))
    folders = {"samples": given.samples, "imagenette": given.imagenette, "tiny": given.tiny}
    folders["imagenette-val"], wanted["imagenette-val"] = given.imagenette, given.val
    for name, folder in folders.items():
        if folder is None:
            continue
        files = some([(wnid, file) for wnid, file in listing(name, folder) if wnid in numbers], wanted[name])
        for place, (wnid, file) in enumerate(files):
            # A stride that shares no factor with the number mixes the classes.
            shuffled = (place * 7919) % len(files)
            yield (shuffled + 0.5) / len(files), f"{name}/{numbers[wnid]}/{file.stem}.jpg", file, name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    for name in ("samples", "imagenette", "tiny"):
        parser.add_argument(f"--{name}", type=Path)
    parser.add_argument("--numbers", type=int, nargs=3, default=(1000, 9000, 20000), help="of each of the three")
    parser.add_argument("--val", type=int, default=500, help="of imagenette's val")
    parser.add_argument("--quality", type=int, default=88, help="of the JPEG files")
    parser.add_argument("--weights", type=Path, help="resnet50.safetensors of pretraining/teachers/convert.py")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.weights is not None:
        save_file(eight_bits(load_file(given.weights)), given.out / "resnet50-8-bits.safetensors")
    shards: list[list[tuple[str, bytes]]] = []
    size = MOST
    for _, member, file, name in sorted(members(given)):
        data = jpeg(name, file, given.quality)
        if size + len(data) > MOST:
            shards.append([])
            size = 0
        shards[-1].append((member, data))
        size += len(data) + 1024  # with its header and padding
    for number, shard in enumerate(shards):
        with tarfile.open(given.out / f"images-{number:02d}.tar", "w") as tar:
            for member, data in shard:
                info = tarfile.TarInfo(member)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    print(f"{sum(map(len, shards))} images in {len(shards)} files under {given.out}")


if __name__ == "__main__":
    main()
