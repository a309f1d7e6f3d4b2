"""Encoding from WebDataset shards against the bare encoder, and the memory that training a large encoder takes.

    python bench/gpu_scale.py [--encoder timm/vit_base_patch16_224] [--images 20000] [--json FILE]
    python bench/gpu_scale.py --memory timm/vit_large_patch14_clip_224 [--json FILE]

Shards hold JPEGs of 224 pixels; the encoder has random weights, as speed does not depend on them. `floor` is the
encoder alone on pixels that are on the device; `encode` is what `conceptlens encode` does: read, decode, send, encode,
store. On a CPU the processor's time is compared, on a GPU the clock's. `--memory` takes steps of a batch of 64 in bf16
with LoRA, with the last two blocks, and with everything, each with and without checkpointing, and reports the peak.
"""

import argparse
import io
import os
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conceptlens.concepts import ConceptSet
from conceptlens.core.files import write_json
from conceptlens.core.processes import Processes
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources.open import open_source
from conceptlens.encoders import make_encoder
from conceptlens.encoders.adapters import add_lora, checkpoint_blocks
from conceptlens.encoders.freezing import set_trainable
from conceptlens.encoders.store.encode import BATCH, fill, open_store
from conceptlens.recipes.schema import DataConfig, EncoderConfig
from decode import draw

CONCEPTS = ConceptSet.from_yaml("classes: [a, b]\ngroups:\n  size: {values: [big, small]}\n")
EACH = 1000


def write_shards(folder: Path, images: int) -> str:
    drawn = [draw(number) for number in range(200)]
    for start in range(0, images, EACH):
        with tarfile.open(folder / f"s-{start // EACH:05d}.tar", "w") as tar:
            for number in range(start, min(start + EACH, images)):
                for suffix, data in (("cls", b"ab"[number % 2 : number % 2 + 1]), ("jpg", drawn[number % 200])):
                    info = tarfile.TarInfo(f"{number:08d}.{suffix}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return f"{folder}/s-*.tar"


def measured(work: Callable[[], object], device: torch.device) -> float:
    """Seconds of the clock on a GPU, of the processor on a CPU."""
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    if device.type == "cuda":
        torch.cuda.synchronize()
    started = clock()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return clock() - started


def encoding(name: str, images: int, workers: int, rounds: int, device: torch.device) -> dict[str, Any]:
    config = EncoderConfig(name=name, train="none", pretrained=False, image_size=224)
    encoder = make_encoder(config).eval().to(device)
    processes = Processes(device)
    floor, whole = [], []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["XDG_CACHE_HOME"] = place
        source, _ = open_source(DataConfig(source=write_shards(folder, images)), CONCEPTS)
        with PixelReader(source, 224, cache_mb=0, workers=workers) as reader:
            pixels = reader.batch(np.arange(BATCH)).to(device)

            def bare() -> None:
                with torch.inference_mode():
                    for start in range(0, images, BATCH):
                        encoder.before(encoder.normalize(pixels[: min(BATCH, images - start)]), 0)

            bare()
            for number in range(rounds):  # in turn, so that both see the same machine
                floor.append(measured(bare, device))
                store = open_store(folder / f"tokens-{number}", encoder, config, reader)
                whole.append(measured(lambda store=store: fill(store, encoder, reader, processes), device))  # type: ignore[misc]
    return {
        "encoder": name,
        "images": images,
        "floor_images_per_second": images / min(floor),
        "encode_images_per_second": images / min(whole),
        "share": min(floor) / min(whole),
    }


def memory(name: str, batch: int, device: torch.device) -> list[dict[str, Any]]:
    rows = []
    for way, train, rank in (("lora 8", "all", 8), ("last two blocks", 2, 0), ("everything", "all", 0)):
        for saving in (False, True):
            encoder = make_encoder(EncoderConfig(name=name, pretrained=False)).to(device).train()
            set_trainable(encoder, train)  # type: ignore[arg-type]
            if rank:
                add_lora(encoder, train, rank)  # type: ignore[arg-type]
                encoder.to(device)
            if saving:
                checkpoint_blocks(encoder)
            learning = [value for value in encoder.parameters() if value.requires_grad]
            optimizer = torch.optim.AdamW(learning, 1e-4)
            images = torch.rand(batch, 3, encoder.image_size, encoder.image_size, device=device)
            torch.cuda.reset_peak_memory_stats()
            for _ in range(3):
                with torch.autocast(device.type, torch.bfloat16):
                    loss = encoder(images).patches.float().square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            peak = torch.cuda.max_memory_allocated() / 2**30
            rows.append(
                {"way": way, "checkpointing": saving, "gigabytes": peak, "learning": sum(map(torch.numel, learning))}
            )
            print(rows[-1], flush=True)
            del encoder, optimizer, learning, images, loss
            torch.cuda.empty_cache()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="timm/vit_base_patch16_224")
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", metavar="ENCODER")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    result: Any
    if args.memory:
        if device.type != "cuda":
            raise SystemExit("--memory measures a GPU's memory, and there is none.")
        result = memory(args.memory, args.batch, device)
    else:
        result = encoding(args.encoder, args.images, args.workers, args.rounds, device)
        print(result)
    if args.json:
        write_json(args.json, {"device": str(device), "torch": torch.__version__, "found": result})


if __name__ == "__main__":
    main()
