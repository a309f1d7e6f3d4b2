"""CORTEX: token importance against one backward per image and sample, the codebook search, and Cliff's δ.

    python bench/cortex.py [--part importance search cliff] [--images 256] [--samples 20] [--width 256] [--grid 16]
                           [--network CE] [--naive 16] [--threads 2] [--device cpu cuda] [--json FILE]

Importance: the same noise, E and extractor in both ways. The loop is timed on `--naive` images and scaled to all: it
has no economies of scale. Two loops are timed: `backward()`, as one writes it, and the same with frozen weights. On a
GPU it also reports images a second in bf16, channels last and compiled, and the share of the measured matmul rate.
Search: 64 images × 16 positions × 16,384 tokens; the largest memory is reported beside that of one P.
"""

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from conceptlens.core.files import write_json
from conceptlens.cortex.bias.cliff import cliffs_delta, delta_with_interval
from conceptlens.cortex.editing.search import search_tokens
from conceptlens.cortex.editing.settings import SearchSettings
from conceptlens.cortex.extractors.extractors import make_network
from conceptlens.cortex.extractors.importance import PAPER, SmoothGrad, image_noise, token_importance
from rank import machine

CLASSES = 1000


def seconds(work: Callable[[], object], device: str, repeats: int = 1) -> float:
    """Smallest wall time of some work."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begin)
    return best


def extractor(name: str, width: int, grid: int, device: str) -> nn.Module:
    """An untrained network with statistics that are not trivial."""
    torch.manual_seed(0)
    network = make_network(name, width, (grid, grid), CLASSES)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            nn.init.uniform_(module.running_mean, -0.1, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return network.eval().to(device)


def loop(network: nn.Module, embeddings: Tensor, concepts: Tensor, settings: SmoothGrad) -> Tensor:
    """One forward and one backward for each image and sample."""
    rows = []
    for index, (one, concept) in enumerate(zip(embeddings, concepts, strict=True)):
        sigma = settings.alpha * (one.max() - one.min())
        total = torch.zeros_like(one)
        for noise in image_noise(one.shape, index, settings, 0, one.device):
            leaf = (one + sigma * noise)[None].requires_grad_()
            network.zero_grad()
            network(leaf).softmax(1)[0, concept].backward()
            assert leaf.grad is not None
            total += leaf.grad[0]
        rows.append((total / settings.samples).abs().amax(0))
    return torch.stack(rows)


def matmul_rate(device: str, dtype: torch.dtype, side: int = 8192) -> float:
    """Measured FLOP/s of a large product."""
    side = side if device == "cuda" else 1024
    a, b = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    for _ in range(3):
        a @ b
    repeats = 20 if device == "cuda" else 3
    return 2 * side**3 * repeats / seconds(lambda: [a @ b for _ in range(repeats)], device)


def flops(network: nn.Module, width: int, grid: int, device: str) -> int:
    """Of one forward and its backward to the embedding."""
    from torch.utils.flop_counter import FlopCounterMode

    for parameter in network.parameters():
        parameter.requires_grad_(False)
    leaf = torch.randn(1, width, grid, grid, device=device).requires_grad_()
    with FlopCounterMode(display=False) as counter:
        network(leaf).softmax(1)[0, 0].backward()
    for parameter in network.parameters():
        parameter.requires_grad_(True)
    return int(counter.get_total_flops())


def importance(options: argparse.Namespace, device: str) -> dict[str, Any]:
    network = extractor(options.network, options.width, options.grid, device)
    settings = SmoothGrad(options.samples, PAPER.alpha)
    embeddings = torch.randn(
        options.images, options.width, options.grid, options.grid, generator=torch.Generator().manual_seed(1)
    ).to(device)
    concepts = (torch.arange(options.images) % CLASSES).to(device)
    few = min(options.naive, options.images)
    loop(network, embeddings[:1], concepts[:1], SmoothGrad(1))
    start = time.perf_counter()
    expected = loop(network, embeddings[:few], concepts[:few], settings)
    naive = (time.perf_counter() - start) * options.images / few
    network.requires_grad_(False)
    frozen = seconds(lambda: loop(network, embeddings[:few], concepts[:few], settings), device) * options.images / few
    network.requires_grad_(True)

    def ours() -> Tensor:
        return token_importance(network, embeddings, concepts, settings, batch=options.batch)

    token_importance(network, embeddings[:4], concepts[:4], settings, batch=options.batch)
    took = seconds(ours, device)
    found = token_importance(network, embeddings[:few], concepts[:few], settings, batch=options.batch)
    work = flops(network, options.width, options.grid, device)
    rate = work * options.images * options.samples / took
    row = {
        "network": options.network,
        "shape": [options.images, options.width, options.grid, options.grid],
        "samples": options.samples,
        "loop_s": naive,
        "loop_with_frozen_weights_s": frozen,
        "loop_measured_on": few,
        "ours_s": took,
        "speed_up": naive / took,
        "speed_up_over_frozen": frozen / took,
        "largest_difference": float((found - expected).abs().max()),
        "largest_difference_relative": float((found - expected).abs().max() / expected.abs().max()),
        "images_per_s": options.images / took,
        "flops_per_sample": work,
        "matmul_share_float32": rate / matmul_rate(device, torch.float32),
    }
    return row | (fast(options, network, embeddings, concepts, settings, work) if device == "cuda" else {})


def fast(
    options: argparse.Namespace,
    network: nn.Module,
    embeddings: Tensor,
    concepts: Tensor,
    settings: SmoothGrad,
    work: int,
) -> dict[str, Any]:
    """The GPU's own way: bf16, channels last, compiled."""
    reference = token_importance(network, embeddings, concepts, settings, batch=options.batch)
    network = network.to(memory_format=torch.channels_last)
    compiled = torch.compile(network)
    embeddings = embeddings.to(memory_format=torch.channels_last)
    rows: dict[str, Any] = {}
    for name, way in (("bf16", network), ("bf16, compiled", compiled)):
        for batch in (options.batch, 4 * options.batch):

            def run(way: Any = way, batch: int = batch) -> Tensor:
                return token_importance(way, embeddings, concepts, settings, batch=batch, precision=torch.bfloat16)

            try:
                found = run()
                took = seconds(run, "cuda", 3)
            except Exception as error:  # a bench tells of everything that goes wrong, and goes on
                rows[f"{name}, batch {batch}"] = f"{type(error).__name__}: {error}"[:300]
                continue
            rows[f"{name}, batch {batch}"] = {
                "images_per_s": len(embeddings) / took,
                "matmul_share_bf16": work
                * len(embeddings)
                * settings.samples
                / took
                / matmul_rate("cuda", torch.bfloat16),
                "largest_difference_relative": float((found - reference).abs().max() / reference.abs().max()),
            }
    return {"fast": rows}


def search(options: argparse.Namespace, device: str) -> dict[str, Any]:
    """64 images, 16 positions, 16,384 tokens."""
    network = extractor(options.network, options.width, options.grid, device)
    codes, count = options.codes, options.search_images
    generator = torch.Generator().manual_seed(0)
    codebook = torch.randn(codes, options.width, generator=generator).to(device)
    tokens = torch.randint(codes, (count, options.grid, options.grid), generator=generator)
    mask = torch.zeros(options.grid, options.grid, dtype=torch.bool)
    mask[:4, :4] = True
    wanted = torch.arange(count) % CLASSES
    settings = SearchSettings(steps=options.steps, record_every=max(1, options.steps // 10))
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    else:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    took = seconds(lambda: search_tokens(network, codebook, wanted, mask, tokens=tokens, settings=settings), device)
    peak = (
        torch.cuda.max_memory_allocated()
        if device == "cuda"
        else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    )
    matrix = 4 * count * 16 * codes
    return {
        "images": count,
        "positions": 16,
        "codes": codes,
        "steps": options.steps,
        "seconds": took,
        "ms_per_step": 1e3 * took / options.steps,
        "memory_above_start_bytes": peak - before,
        "one_selection_matrix_bytes": matrix,
        "all_positions_would_be_bytes": matrix * options.grid**2 // 16,
    }


def cliff() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x, y = rng.poisson(8, 100_000), rng.poisson(7, 100_000)
    return {
        "values": [len(x), len(y)],
        "delta_s": seconds(lambda: cliffs_delta(x, y), "cpu", 3),
        "with_interval_s": seconds(lambda: delta_with_interval(x, y, paired=True), "cpu", 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", default=["importance", "search", "cliff"])
    for name, value in (("images", 256), ("samples", 20), ("width", 256), ("grid", 16), ("naive", 4), ("batch", 320)):
        parser.add_argument(f"--{name}", type=int, default=value)
    for name, value in (("codes", 16_384), ("steps", 20), ("search-images", 64), ("threads", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--network", default="CE")
    parser.add_argument("--device", nargs="+", choices=("cpu", "cuda"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    for device in options.device or (["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]):
        row: dict[str, Any] = {"machine": machine(device)}
        if "importance" in options.part:
            row["importance"] = importance(options, device)
        if "search" in options.part:
            row["search"] = search(options, device)
        if "cliff" in options.part:
            row["cliff"] = cliff()
        for part, found in row.items():
            print(f"{part}: " + ", ".join(f"{key} {value}" for key, value in found.items()), flush=True)
        rows.append(row)
        if options.json:  # after each device: what is measured stays if a later one fails
            write_json(options.json, {"rows": rows})


if __name__ == "__main__":
    main()
