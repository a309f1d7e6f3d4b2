"""Encoding from WebDataset shards against the bare encoder, and the memory that training a large encoder takes.

    python bench/gpu_scale.py [--encoder timm/vit_base_patch16_224] [--images 1536,8192] [--json FILE]
    python bench/gpu_scale.py --memory timm/vit_large_patch14_clip_224 [--json FILE]

Shards hold JPEGs of 224 pixels; the encoder has random weights, as speed does not depend on them. `bare` is the
encoder alone on pixels that are on the device, on a GPU at the faster of two batch sizes; `encode` is what `conceptlens
encode` does: read, decode, send, encode, store. Numbers of images are for fp32 and bf16; with one number, for fp32
alone. Seconds are the clock's and the processor's; the latter count on a CPU that others use too. Decoding alone is
measured too: by Pillow, by simplejpeg and by nvJPEG, where they are installed. `--memory` takes steps of a batch of 64
in bf16 with LoRA and with the last two blocks, each with and without checkpointing, and reports the peak.
"""

import argparse
import copy
import io
import os
import platform
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.core.files import write_bytes, write_json
from conceptlens.core.processes import Launched
from conceptlens.data.dataset import DataSource
from conceptlens.data.images import turbo
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.sources.open import open_source
from conceptlens.encoders import make_encoder
from conceptlens.encoders.adapters import add_lora, checkpoint_blocks
from conceptlens.encoders.contract import Encoder
from conceptlens.encoders.freezing import set_trainable
from conceptlens.encoders.store.encode import BATCH, GPU_BATCH, fill, open_store
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


def measured(work: Callable[[], object], device: torch.device) -> tuple[float, float]:
    """Seconds of the clock and of the processor."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter(), time.process_time()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started[0], time.process_time() - started[1]


def decoding(source: DataSource, images: int, device: torch.device) -> list[dict[str, Any]]:
    """Images per second that are read and decoded, by library and threads, with nothing else going on."""
    rows = []
    library = turbo._library()
    order = np.arange(images)
    for name in ("pillow", *(["simplejpeg"] if library else [])):
        turbo._library = lambda name=name: library if name == "simplejpeg" else None  # type: ignore[assignment, misc]
        for workers in sorted({1, 4, os.cpu_count() or 1}):
            with PixelReader(source, 224, cache_mb=0, workers=workers) as reader:
                count = min(images, 800 * workers)
                started = time.perf_counter()
                for _ in reader.prefetch(np.split(order[:count], range(64, count, 64))):
                    pass
                rows.append(
                    {"by": name, "threads": workers, "images_per_second": count / (time.perf_counter() - started)}
                )
    if device.type == "cuda":
        from torchvision.io import decode_jpeg

        files = [torch.from_numpy(np.frombuffer(draw(number), np.uint8).copy()) for number in range(64)]
        decode_jpeg(files, device="cuda")
        seconds, _ = min(
            measured(lambda: [decode_jpeg(files, device="cuda") for _ in range(8)], device) for _ in range(3)
        )
        found = torch.stack(decode_jpeg(files, device="cuda")).cpu().short()
        ours = torch.from_numpy(np.stack([np.asarray(Image.open(io.BytesIO(bytes(file.numpy())))) for file in files]))
        difference = (found - ours.permute(0, 3, 1, 2).short()).abs()
        rows.append(
            {"by": "nvJPEG (torchvision)", "images_per_second": 512 / seconds}
            | {"largest_difference": int(difference.max()), "mean_difference": float(difference.float().mean())}
        )
    return rows


def rates(
    encoder: Encoder, config: EncoderConfig, reader: PixelReader, count: int, precision: str, rounds: int, folder: Path
) -> dict[str, Any]:
    """Images per second of the bare encoder by batch size, and of filling a store."""
    processes = Launched(precision)
    device, rows = processes.device, np.arange(count)
    floors: dict[int, list[tuple[float, float]]] = {}
    whole: list[tuple[float, float]] = []

    def bare(pixels: Tensor, images: int = count) -> None:
        with torch.inference_mode(), processes.autocast():
            for start in range(0, images, len(pixels)):
                encoder.before(encoder.normalize(pixels[: images - start]), 0)

    batches = [
        reader.batch(rows[:batch]).to(device) for batch in ((GPU_BATCH, 256) if device.type == "cuda" else (BATCH,))
    ]
    for pixels in batches:
        bare(pixels, 2 * len(pixels))
    for number in range(rounds):  # in turn, so that both see the same machine
        for pixels in batches:
            floors.setdefault(len(pixels), []).append(measured(partial(bare, pixels), device))
        path = folder / f"tokens-{precision}-{number}"
        store = open_store(path, encoder, config, reader, precision=precision, rows=rows)
        whole.append(measured(partial(fill, store, encoder, reader, processes, rows=rows), device))
        shutil.rmtree(path)
    clock, processor = (
        min(one[k] for times in floors.values() for one in times) / min(one[k] for one in whole) for k in (0, 1)
    )
    return {
        "precision": precision,
        "images": count,
        "bare_seconds": floors,
        "encode_seconds": whole,
        "share": clock,
        "processor_share": processor,
    }


def encoding(name: str, images: list[int], workers: int, rounds: int, device: torch.device) -> dict[str, Any]:
    config = EncoderConfig(name=name, train="none", pretrained=False, image_size=224)
    encoder = make_encoder(config).eval().to(device)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ["XDG_CACHE_HOME"] = place
        source, _ = open_source(DataConfig(source=write_shards(folder, max(images))), CONCEPTS)
        decoded = decoding(source, max(images), device)
        content, started = bytes(2**28), time.perf_counter()
        write_bytes(folder / "probe", content)  # how fast this disk is, beside the store
        disk = 2**28 / (time.perf_counter() - started) / 1e6
        for precision, count in zip(("fp32", "bf16"), images, strict=False):
            with PixelReader(source, 224, cache_mb=0, workers=workers) as reader:
                rows.append(rates(encoder, config, reader, count, precision, rounds, folder))
            print(rows[-1], flush=True)
    return {"encoder": name, "workers": workers, "decoding": decoded, "disk_mb_per_second": disk, "rows": rows}


def memory(name: str, batch: int, device: torch.device) -> list[dict[str, Any]]:
    rows = []
    whole = make_encoder(EncoderConfig(name=name, pretrained=False))
    for way, train, rank in (("lora 8", "all", 8), ("last two blocks", 2, 0)):
        for saving in (False, True):
            encoder = copy.deepcopy(whole).to(device).train()
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
                started = time.perf_counter()
                with torch.autocast(device.type, torch.bfloat16):
                    loss = encoder(images).patches.float().square().mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                torch.cuda.synchronize()
                seconds = time.perf_counter() - started
            rows.append(
                {"way": way, "checkpointing": saving, "gigabytes": torch.cuda.max_memory_allocated() / 1e9}
                | {"learning": sum(map(torch.numel, learning)), "seconds_of_third_step": seconds}
            )
            print(rows[-1], flush=True)
            del encoder, optimizer, learning, images, loss
            torch.cuda.empty_cache()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="timm/vit_base_patch16_224")
    parser.add_argument("--images", default="1536,8192")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=2)
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
        result = encoding(
            args.encoder, [int(count) for count in args.images.split(",")], args.workers, args.rounds, device
        )
    if args.json:
        machine = torch.cuda.get_device_name() if device.type == "cuda" else platform.machine()
        about = {"device": machine, "cores": os.cpu_count(), "torch": torch.__version__, "load": os.getloadavg()[0]}
        write_json(args.json, {**about, "found": result})


if __name__ == "__main__":
    main()
