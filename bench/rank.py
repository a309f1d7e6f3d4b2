"""Ranks of patch matrices: a loop of one full SVD per image, as in published code, against `patch_ranks`, in one run.

    python bench/rank.py [--device cuda] [--repeats 5] [--threads 2] [--json FILE]

Both see the same images. Times are the smallest over the repeats; the two-thread figures mean something only
where two cores are free. Every rank is compared with a float64 SVD of the same image.
"""

import argparse
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from conceptlens.core.files import write_json
from conceptlens.stats.rank import DEFINITIONS, patch_ranks

SHAPES = (
    (32, 196, 768),
    (32, 196, 192),
    (32, 144, 128),
)  # ViT-B/16 at 224 px, ViT-Ti/16, a small ViT on 12 × 12 patches
SPECTRA = ("tokens", "collapsed", "gaussian")


def make_patches(kind: str, shape: tuple[int, int, int], seed: int) -> Tensor:
    """Float32 patches (B, L, D) with a spectrum of a known kind.

    `tokens` has what trained encoders show: a mean patch that dominates, directions whose strength falls as a power, a
    floor of noise. `collapsed` has twelve directions and next to nothing else. `gaussian` is white.
    """
    generator = torch.Generator().manual_seed(seed)
    batch, rows, columns = shape
    n = min(rows, columns)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator)

    if kind == "gaussian":
        return normal(*shape)
    decay = torch.arange(1, n + 1).pow(-0.8) if kind == "tokens" else (torch.arange(n) < 12).float()
    strength = torch.exp(0.3 * normal(batch, 1, 1))  # no two images alike
    signal: Tensor = (normal(batch, rows, n) * decay**strength) @ normal(batch, n, columns) / columns**0.5
    floor = 1e-2 if kind == "tokens" else 1e-4
    return signal + 0.5 * normal(batch, 1, columns) + floor * normal(*shape)


def published_loop(patches: Tensor) -> Tensor:
    """One SVD per image in the images' own precision, and the count of cumulative shares up to 99 %."""
    ranks = []
    for image in patches:
        _, sigma, _ = torch.linalg.svd(image, full_matrices=False)
        ranks.append((sigma.cumsum(0) / sigma.sum() <= 0.99).sum())
    return torch.stack(ranks)


def reference(patches: Tensor) -> dict[str, Tensor]:
    """All ranks from a float64 SVD per image, written independently of the package."""
    rows: dict[str, list[Tensor]] = {name: [] for name in DEFINITIONS}
    for image in patches:
        sigma = torch.linalg.svd(image.double(), full_matrices=False)[1]
        share = sigma / sigma.sum()
        rows["published"].append((sigma.cumsum(0) / sigma.sum() <= 0.99).sum())
        rows["energy"].append(((sigma**2).cumsum(0) / (sigma**2).sum() <= 0.99).sum())
        rows["numerical"].append((sigma > sigma[0] * max(image.shape) * torch.finfo(image.dtype).eps).sum())
        rows["effective"].append(torch.exp(-(share * share.clamp(min=1e-300).log()).sum()))
        rows["stable"].append((sigma**2).sum() / sigma[0] ** 2)
    return {name: torch.stack(values).double() for name, values in rows.items()}


def best_times(work: dict[str, Callable[[], object]], repeats: int, device: str) -> dict[str, float]:
    """Smallest wall time of each piece of work, in seconds; two rounds, in each the repeats of one after another."""
    best = dict.fromkeys(work, float("inf"))
    for name, call in [*work.items(), *work.items()]:
        time.sleep(0.05)  # OpenMP threads spin for a while after their work: not in the next one's time
        for _ in range(repeats):
            start = time.perf_counter()
            call()
            if device == "cuda":
                torch.cuda.synchronize()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def measure(kind: str, shape: tuple[int, int, int], repeats: int, device: str) -> dict[str, Any]:
    patches = make_patches(kind, shape, seed=sum(shape)).to(device)
    seconds = best_times(
        {
            "loop": lambda: published_loop(patches),
            "published": lambda: patch_ranks(patches, ("published",)),
            "all five": lambda: patch_ranks(patches),
        },
        repeats,
        device,
    )
    truth, ours, loop = reference(patches.cpu()), patch_ranks(patches), published_loop(patches).cpu()
    wrong = {name: int((ours[name] != truth[name]).sum()) for name in ("published", "energy", "numerical")}
    wrong |= {name: int((ours[name] / truth[name] - 1).abs().gt(1e-5).sum()) for name in ("effective", "stable")}
    return {
        "spectrum": kind,
        "shape": list(shape),
        "mean_published_rank": truth["published"].mean().item(),
        "ms_per_image": {name: 1e3 * value / shape[0] for name, value in seconds.items()},
        "speed_up": seconds["loop"] / seconds["published"],
        "speed_up_all_five": seconds["loop"] / seconds["all five"],
        "mismatches": wrong,
        "mismatches_of_the_loop": int((loop != truth["published"]).sum()),
    }


def machine(device: str) -> dict[str, Any]:
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        names = [
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines()
            if "model name" in line
        ]
        cpu = names[0] if names else cpu
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    about = machine(arguments.device)
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print("ms per image; wrong: images of the batch whose rank differs from a float64 SVD, of any definition")
    print("spectrum        L × D   rank     loop     ours all five speed-up  wrong")
    rows = []
    for shape in SHAPES:
        for kind in SPECTRA:
            row = measure(kind, shape, arguments.repeats, arguments.device)
            rows.append(row)
            ms = row["ms_per_image"]
            print(
                f"{kind:10} {shape[1]:>4} × {shape[2]:<3} {row['mean_published_rank']:>6.1f} {ms['loop']:>8.3f} "
                f"{ms['published']:>8.3f} {ms['all five']:>8.3f} {row['speed_up']:>7.1f}× "
                f"{sum(row['mismatches'].values()):>6}",
                flush=True,
            )
    if arguments.json:
        write_json(arguments.json, {"machine": about, "repeats": arguments.repeats, "rows": rows})


if __name__ == "__main__":
    main()
