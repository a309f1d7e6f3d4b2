"""Decoding JPEGs of 224 pixels to what an encoder gets, on one core: Pillow as the package uses it, and simplejpeg.

    python bench/decode.py [--images 400] [--json FILE]

Images are drawn (smooth colors with noise, quality 90, some 15 kB). Both decode and resize nothing; the processor's
time is counted, so other work of the machine does not matter.
"""

import argparse
import io
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from conceptlens.core.files import write_json
from conceptlens.data.images.read import examine_image, resize_square


def draw(number: int) -> bytes:
    generator = np.random.default_rng(number)
    coarse = Image.fromarray(generator.integers(0, 256, (8, 8, 3), np.uint8)).resize(
        (224, 224), Image.Resampling.BICUBIC
    )
    pixels = np.asarray(coarse, np.int16) + generator.integers(-8, 9, (224, 224, 3))
    buffer = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def microseconds(decode: Callable[[bytes], object], images: list[bytes]) -> float:
    times = []
    for _ in range(3):
        started = time.process_time()
        for image in images:
            decode(image)
        times.append(time.process_time() - started)
    return min(times) / len(images) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=400)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    images = [draw(number) for number in range(args.images)]

    def package(data: bytes) -> object:
        return resize_square(examine_image(data, name="x", at_least=224)[0], 224, "squash")

    found = {"bytes": float(np.mean([len(image) for image in images])), "package": microseconds(package, images)}
    found["pillow"] = microseconds(lambda data: np.asarray(Image.open(io.BytesIO(data)).convert("RGB")), images)
    try:
        import simplejpeg

        found["simplejpeg"] = microseconds(simplejpeg.decode_jpeg, images)
        ours = np.asarray(examine_image(images[0], name="x")[0], np.int16)
        found["largest_difference"] = float(np.abs(ours - simplejpeg.decode_jpeg(images[0]).astype(np.int16)).max())
    except ImportError:
        pass
    for name, value in found.items():
        print(f"{name:20}{value:10.1f}")
    if args.json:
        write_json(args.json, {"images": args.images, "found": found})


if __name__ == "__main__":
    main()
