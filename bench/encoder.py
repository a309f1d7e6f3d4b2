"""Images a second of the built-in encoders on the CPU, their share of the machine's matmul rate, and phrases a minute.

    python bench/encoder.py [--threads 2] [--rounds 5] [--json FILE]

All in float32 and in one run: rounds go through all networks and the matmul in turn, and the quickest round of each
counts. The other networks are timm's, without trained weights, as beacons. Operations are counted by torch
(convolutions, matmuls, attention), a multiplication and an addition as two. The figures mean something only where the
cores are free.
"""

import argparse
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import timm
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from conceptlens.concepts import ConceptSet, library
from conceptlens.core.files import write_json
from conceptlens.encoders.builtin.efficientnet_lite0 import EfficientNetLite0
from conceptlens.encoders.builtin.vit import BuiltinViT
from conceptlens.encoders.text.builtin import BuiltinText

PROMISE = {"images_per_second": 50, "share_of_matmul": 0.40, "phrases_per_minute": 10_000}
BUILTIN = "builtin/vit"
BATCHES = (1, 8, 32)
SQUARE = 2048


def networks() -> dict[str, tuple[nn.Module, int]]:
    """Name → network and the side of its images."""
    beacons = {"ViT-Ti/16": "vit_tiny_patch16_224", "ResNet50": "resnet50"}
    ours = (BuiltinViT(), EfficientNetLite0())
    made: dict[str, tuple[nn.Module, int]] = {network.name: (network, network.image_size) for network in ours}
    made |= {name: (timm.create_model(model, pretrained=False), 224) for name, model in beacons.items()}
    return {name: (network.eval().requires_grad_(False), size) for name, (network, size) in made.items()}


@torch.inference_mode()
def operations(network: nn.Module, size: int) -> int:
    """Floating-point operations for one image."""
    with FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, 3, size, size))
    return int(counter.get_total_flops())


@torch.inference_mode()
def seconds(work: Callable[[], object], at_least: float = 0.5) -> float:
    """Smallest time of one call, over as many calls as fit."""
    work()
    best, started = float("inf"), time.perf_counter()
    while time.perf_counter() - started < at_least:
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def measure(rounds: int) -> dict[str, Any]:
    made = networks()
    left, right = torch.rand(SQUARE, SQUARE), torch.rand(SQUARE, SQUARE)
    matmul = float("inf")
    best = {(name, batch): float("inf") for name in made for batch in BATCHES}
    text, words = BuiltinText(), [phrase for name in library() for phrase in ConceptSet.load(name).texts]
    reading = float("inf")
    for _ in range(rounds):
        matmul = min(matmul, seconds(lambda: left @ right))
        reading = min(reading, seconds(lambda: text.embed(words)))
        for name, (network, size) in made.items():
            for batch in BATCHES:
                images = torch.rand(batch, 3, size, size)
                taken = seconds(lambda network=network, images=images: network(images))  # type: ignore[misc]
                best[name, batch] = min(best[name, batch], taken / batch)
    rate = 2 * SQUARE**3 / matmul
    rows = []
    for name, (network, size) in made.items():
        flops = operations(network, size)
        batch = min(BATCHES, key=lambda batch: best[name, batch])
        rows.append(
            {
                "name": name,
                "size": size,
                "parameters": sum(parameter.numel() for parameter in network.parameters()),
                "gigaflops_per_image": flops / 1e9,
                "images_per_second": {str(batch): 1 / best[name, batch] for batch in BATCHES},
                "best_images_per_second": 1 / best[name, batch],
                "share_of_matmul": flops / best[name, batch] / rate,
            }
        )
    phrases = {"phrases": len(words), "phrases_per_minute": 60 * len(words) / reading}
    return {"matmul_gigaflops": rate / 1e9, "rows": rows, "text": phrases}


def machine() -> dict[str, Any]:
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        cpu = next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), cpu)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    about = {"cpu": cpu, "cores": os.cpu_count(), "threads": torch.get_num_threads(), "load_before": load}
    return about | {"python": platform.python_version(), "torch": torch.__version__}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    found = measure(args.rounds)
    print(f"matmul {SQUARE} × {SQUARE}, float32: {found['matmul_gigaflops']:.0f} GFLOP/s")
    print(f"{'network':27} side  M par.  GFLOP  images/s at batch {BATCHES}        share of matmul")
    for row in found["rows"]:
        speeds = "  ".join(f"{row['images_per_second'][str(batch)]:8.1f}" for batch in BATCHES)
        print(
            f"{row['name']:27} {row['size']:4} {row['parameters'] / 1e6:7.2f} {row['gigaflops_per_image']:6.2f}  "
            f"{speeds}    {row['share_of_matmul']:12.0%}"
        )
    print(f"builtin/text: {found['text']['phrases_per_minute']:,.0f} phrases a minute (concept texts)")
    print(
        f"built-in encoders promise at least {PROMISE['images_per_second']} images/s "
        f"and {BUILTIN} {PROMISE['share_of_matmul']:.0%} of the matmul rate"
    )
    if args.json:
        write_json(args.json, {"machine": about, "promise": PROMISE, "rounds": args.rounds, **found})


if __name__ == "__main__":
    main()
