"""Training on a GPU: the full IVQ-CBM step beside a bare classification step, the published one and the matmul rate.

    python bench/gpu.py [--json FILE] [--rounds 3] [--budget 220] [--only NAME ...] [--tiny]

Everything is measured on one device in one run; the variants take turns, medians over the rounds count. Images are
noise of the right size, resident as bytes. Our step is that of the loop (`TrainStage.train_epoch`): gathering,
augmenting, forward, losses, backward, clipping, AdamW, rank tracking every 50 steps. `bare` is a timm classifier under
`torch.compile` with CUDA graphs as ours: normalization, forward, cross-entropy, backward, fused AdamW; bf16 autocast.
`eager` is our step without compiling, otherwise the same. `published` is `bench/published.py`.

Shares of the matmul rate count the encoder's products only (`vit_flops`), backward twice the forward.
`--budget`: seconds after which no further optional part is begun. `--tiny`: small enough for a CPU, to see it run.
"""

import argparse
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import timm
import torch
from torch import Tensor

from conceptlens.core.files import write_json
from conceptlens.training.optimization import compiled
from gpu_bench import TINY, Bench, Sizes, take_turns
from gpu_parts import breakdown, kernels
from gpu_variants import Bare, Ours, published

GOALS = {
    "share of the bare compiled step, large batch": 0.90,
    "share of the matmul rate, large batch": 0.35,
    "times the published step": 5.0,
    "compiled against eager, small batch": 3.0,
}
OPTIONAL = {"breakdown": 30, "kernels": 15, "builtin": 80, "bare-default": 45}  # about how many seconds each takes


def matmul_rate(bench: Bench) -> dict[str, float]:
    """Operations per second of bf16 products: a large square, and those of a ViT-B's block at the large batch."""
    rows, side = bench.sizes.large * 197, bench.sizes.square
    shapes = {"square": (side, side, side)}
    for name, k, n in (("qkv", 768, 2304), ("out", 768, 768), ("up", 768, 3072), ("down", 3072, 768)):
        shapes[name] = (rows, k, n)
    rates = {}
    for name, (m, k, n) in shapes.items():
        a = torch.randn(m, k, device=bench.device, dtype=torch.bfloat16)
        b = torch.randn(k, n, device=bench.device, dtype=torch.bfloat16)

        def several(a: Tensor = a, b: Tensor = b) -> None:
            for _ in range(10):
                a @ b

        rates[name] = 10 * 2.0 * m * k * n / bench.median(several, 7)
    return rates


def machine(device: torch.device) -> dict[str, Any]:
    cuda = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if cuda else "cpu",
        "memory_gb": torch.cuda.get_device_properties(device).total_memory / 2**30 if cuda else None,
        "torch": torch.__version__,
        "timm": timm.__version__,
        "python": platform.python_version(),
    }


def goals(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What was wanted and what was found; nothing where a variant failed."""
    names = ("bare, compiled, large", "ours, compiled, large", "ours, compiled, small", "ours, eager, small")
    bare, large, small, eager = (found["variants"].get(f"{name} batch", {}).get("images_per_second") for name in names)
    share = found["variants"].get("ours, compiled, large batch", {}).get("share_of_matmul_rate")
    published_speed = found["published"].get("images_per_second")
    values = (
        large / bare if large and bare else None,
        share,
        large / published_speed if large and published_speed else None,
        small / eager if small and eager else None,
    )
    return {
        name: {"wanted": wanted, "found": value, "reached": value is not None and value >= wanted}
        for (name, wanted), value in zip(GOALS.items(), values, strict=True)
    }


def measure(bench: Bench, optional: list[str], budget: float, write: Callable[[dict[str, Any]], None]) -> None:
    """Fill `bench.found`, writing it after every part."""
    sizes, found = bench.sizes, bench.found

    def done(part: str) -> None:
        found.setdefault("seconds", {})[part] = bench.seconds
        write(found)
        print(f"{bench.seconds:6.1f} s  {part}", flush=True)

    found["matmul_flops_per_second"] = matmul_rate(bench)
    rate = found["matmul_flops_per_second"]["square"]
    done("matmul")
    found["published"] = {}
    with bench.guarded("published"):
        found["published"] = published(bench)
    bench.free()
    done("published")

    encoder = f"timm/{sizes.encoder}"
    bare = Bare(bench, "bare, compiled, large batch", graphs=True)
    ours = {
        (batch, quick): Ours(
            bench,
            f"ours, {'compiled' if quick else 'eager'}, {size} batch",
            encoder,
            sizes.pixels,
            batch,
            compile=quick,
        )
        for size, batch in (("large", sizes.large), ("small", sizes.small))
        for quick in (True, False)
    }
    variants = take_turns(bench, [bare.variant, *(each.variant for each in ours.values())])
    found["flops_per_image_forward"] = {"bare": bare.flops, "ours": ours[sizes.large, True].variant.flops}
    results = found["variants"] = {variant.name: variant.result(rate) for variant in variants}
    found["goals"] = goals(found)
    done("variants")

    def more(*things: Ours | Bare) -> None:
        running = take_turns(bench, [each.variant for each in things])
        results.update({variant.name: variant.result(rate) for variant in running})

    def builtin() -> None:
        ours.clear()
        bench.free()
        for size, batch in (("large", sizes.large), ("small", sizes.small)):
            names = {quick: f"builtin/vit, {'compiled' if quick else 'eager'}, {size} batch" for quick in (True, False)}
            more(
                *(
                    Ours(bench, name, "builtin/vit", sizes.builtin_pixels, batch, compile=quick)
                    for quick, name in names.items()
                )
            )

    first = ours[sizes.large, True]
    parts: dict[str, Callable[[], object]] = {
        "breakdown": lambda: found.update(breakdown_ms=breakdown(bench, first, bare)),
        "kernels": lambda: found.update(kernels=kernels(bench, first)),
        "bare-default": lambda: more(Bare(bench, "bare, compiled without CUDA graphs", graphs=False)),
        "builtin": builtin,
    }
    for part, work in parts.items():
        if part not in optional:
            continue
        if bench.seconds + OPTIONAL[part] > budget:
            found["notes"].append(f"{part} was left out: {bench.seconds:.0f} s of {budget:.0f} were used")
            continue
        with bench.guarded(part):
            work()
        done(part)
    write(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=220)
    parser.add_argument("--only", nargs="*", choices=OPTIONAL, help="the optional parts wanted; all if not given")
    parser.add_argument("--tiny", action="store_true", help="small sizes, nothing is really compiled")
    args = parser.parse_args()
    cuda = torch.cuda.is_available()
    if not (cuda or args.tiny):
        print("no CUDA device: nothing to measure (--tiny shows that it runs)")
        return
    device = torch.device("cuda" if cuda else "cpu")
    if args.tiny and not cuda:
        compiled.BACKEND = "eager"
    about = machine(device)
    print(", ".join(f"{key} {value}" for key, value in about.items()), flush=True)

    def write(found: dict[str, Any]) -> None:
        if args.json:
            write_json(args.json, {"machine": about, "rounds": args.rounds, **found})

    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(TINY if args.tiny else Sizes(), device, args.rounds, Path(folder))
        measure(bench, list(OPTIONAL) if args.only is None else args.only, args.budget, write)
    report(bench.found)


def report(found: dict[str, Any]) -> None:
    """A short table, goals last."""
    for name, value in found["matmul_flops_per_second"].items():
        print(f"matmul {name:40}{value / 1e12:10.2f} TFLOP/s")
    print(f"{'published step':47}{found['published'].get('images_per_second', 0):10.1f} images/s")
    for name, row in found["variants"].items():
        print(
            f"{name:47}{row['images_per_second']:10.1f} images/s {row['ms_per_step']:9.2f} ms a step "
            f"{row['share_of_matmul_rate']:7.1%} of the matmul rate {row.get('peak_mb', 0):8.0f} MB"
        )
    for name, value in found.get("breakdown_ms", {}).items():
        print(f"  {name:60}{value:9.3f} ms")
    if "kernels" in found:
        print(
            f"  busy {found['kernels']['busy_share']:.1%}, {found['kernels']['kernels_per_step']:.0f} kernels a step, "
            f"{found['kernels']['kernel_ms_per_step']:.2f} ms of kernels"
        )
        for row in found["kernels"]["busiest"]:
            print(f"    {row['ms_per_step']:8.3f} ms {row['calls']:7.1f} × {row['name']}")
    for note in found["notes"]:
        print(f"note: {note}")
    for name, row in found["goals"].items():
        value = "failed" if row["found"] is None else f"{row['found']:.2f}"
        print(f"{name:47}{value:>10} wanted {row['wanted']:5.2f}  {'reached' if row['reached'] else 'MISSED'}")


if __name__ == "__main__":
    main()
