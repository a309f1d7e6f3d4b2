"""The token store: building it against the bare encoder, reading it against a plain copy of the same bytes.

    python bench/store.py [--images 512] [--threads 2] [--json FILE]

Built with the built-in encoder, cut before its last block, on drawn images whose pixels are in memory. Reading is from
the page cache, in batches of 64, in order and at random; the floor is one copy of each shard from its memory map.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conceptlens.core.files import write_json
from conceptlens.core.processes import Processes
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources.open import open_source
from conceptlens.encoders import make_encoder
from conceptlens.encoders.store.encode import BATCH, fill, open_store
from conceptlens.recipes.schema import DataConfig, EncoderConfig, ShapesConfig

PROMISE = {"building": 0.90, "reading": 0.80}


def best(work: Callable[[], object], rounds: int) -> float:
    """Smallest time of a call in seconds."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)


@torch.inference_mode()
def measure(images: int, rounds: int, folder: Path) -> dict[str, Any]:
    config = EncoderConfig(train=1)
    encoder = make_encoder(config).eval()
    source, _ = open_source(DataConfig(source="shapes", shapes=ShapesConfig(n=images)), None)
    reader = PixelReader(source, encoder.image_size)
    everything = np.arange(images)
    pixels = reader.batch(everything)

    def bare() -> None:
        for start in range(0, images, BATCH):
            encoder.before(encoder.normalize(pixels[start : start + BATCH]), 1)

    bare()
    floor, building = [], []
    for number in range(rounds):  # in turn, so that both see the same machine
        floor.append(best(bare, 1))
        store = open_store(folder / str(number), encoder, config, reader)
        building.append(best(lambda store=store: fill(store, encoder, reader, Processes()), 1))  # type: ignore[misc]
    size = images * store.tokens * store.width * 2
    files = [np.load(store.path / f"shard-{shard:05d}.npy", mmap_mode="r") for shard in range(store.shards)]
    buffers = [np.empty(file.shape, file.dtype) for file in files]
    mixed = np.random.default_rng(0).permutation(images)

    def copy() -> None:
        for buffer, file in zip(buffers, files, strict=True):
            np.copyto(buffer, file)

    def read(order: Any) -> None:
        for start in range(0, images, 64):
            store.read(order[start : start + 64])

    copy()
    plain = best(copy, 5 * rounds)
    ordered, random = best(lambda: read(everything), 5 * rounds), best(lambda: read(mixed), 5 * rounds)
    return {
        "images": images,
        "megabytes": size / 1e6,
        "encoder_images_per_second": images / min(floor),
        "building_images_per_second": images / min(building),
        "building_share": min(floor) / min(building),
        "copy_gigabytes_per_second": size / plain / 1e9,
        "reading_in_order_share": plain / ordered,
        "reading_at_random_share": plain / random,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(args.images, args.rounds, Path(folder))
    for name, value in found.items():
        print(f"{name:30}{value:12.2f}")
    print(f"wanted: building {PROMISE['building']:.0%} of the encoder, reading {PROMISE['reading']:.0%} of a copy")
    if args.json:
        machine = {"threads": args.threads, "torch": torch.__version__}
        write_json(args.json, {"machine": machine, "promise": PROMISE, "found": found})


if __name__ == "__main__":
    main()
