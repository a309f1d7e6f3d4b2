"""Sinkhorn: a plain loop of two logsumexp per iteration, as one would write it, against `sinkhorn`, in one run.

    python bench/sinkhorn.py [--device cpu cuda] [--images 64] [--patches 196] [--concepts 312] [--iterations 100]
                             [--repeats 5] [--threads 2] [--json FILE]

Both solve the same problems: cosine costs between unit vectors, uneven marginals. Times are the smallest over the
repeats, of the plan alone and with the gradient of a loss in it. Errors are the total variation between a plan and that
of a float64 loop of as many iterations on the same inputs, for each ε and type. What fails is named in the output, not
raised: without the GPU kernel, torch takes over, and `kernel` says why.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from conceptlens.core.files import write_json
from conceptlens.core.gpu_kernels import failures
from conceptlens.nn.transport import sinkhorn as module
from conceptlens.nn.transport.sinkhorn import sinkhorn
from rank import machine

EPS = (1.0, 0.1, 0.05, 0.01, 1e-3)
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
TIMED = 0.05  # ε
TILES = ((4096, 4), (4096, 8), (8192, 8), (8192, 16), (16384, 16))  # entries a tile, warps: settings of the kernel


def problem(shape: tuple[int, int, int], device: str, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Costs 1 − cosine (B, L, K) in float32, and marginals (B, L) and (B, K)."""
    generator = torch.Generator().manual_seed(seed)
    images, patches, concepts = shape
    unit = torch.nn.functional.normalize
    x = unit(torch.randn(images, patches, 128, generator=generator), dim=-1)
    t = unit(torch.randn(concepts, 128, generator=generator), dim=-1)
    a, b = (torch.randn(images, size, generator=generator).softmax(1) for size in (patches, concepts))
    return (1 - x @ t.T).to(device), a.to(device), b.to(device)


def plain(cost: Tensor, a: Tensor, b: Tensor, eps: float, iterations: int) -> Tensor:
    """The loop of a textbook."""
    f, g = torch.zeros_like(a), torch.zeros_like(b)
    log_a, log_b = a.log(), b.log()
    for _ in range(iterations):
        f = eps * (log_a - torch.logsumexp((g[:, None, :] - cost) / eps, 2))
        g = eps * (log_b - torch.logsumexp((f[:, :, None] - cost) / eps, 1))
    return torch.exp((f[:, :, None] + g[:, None, :] - cost) / eps)


def seconds(work: Callable[[], object], repeats: int, device: str) -> float:
    """Smallest wall time of some work, after one run to warm up."""
    best = float("inf")
    for repeat in range(repeats + 1):
        start = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start) if repeat else best
    return best


def attempt(work: Callable[[], Any]) -> Any:
    """What the work returns, or why it failed, in words."""
    try:
        return work()
    except Exception as error:  # a bench tells of everything that goes wrong, and goes on
        return f"{type(error).__name__}: {error}"[:300]


def gradient(solve: Callable[[Tensor], Tensor], cost: Tensor, weights: Tensor) -> Tensor:
    leaf = cost.clone().requires_grad_()
    (solve(leaf) * weights).sum().backward()
    assert leaf.grad is not None
    return leaf.grad


def times(shape: tuple[int, int, int], iterations: int, repeats: int, device: str) -> dict[str, Any]:
    """Milliseconds of each way, forward and with its gradient, and how gradients differ."""
    cost, a, b = problem(shape, device)
    weights = torch.randn(cost.shape, generator=torch.Generator().manual_seed(1)).to(device)
    ways: dict[str, Callable[[Tensor], Tensor]] = {
        "plain": lambda c: plain(c, a, b, TIMED, iterations),
        "ours": lambda c: sinkhorn(c, a, b, eps=TIMED, iterations=iterations),
        "ours, unrolled": lambda c: sinkhorn(c, a, b, eps=TIMED, iterations=iterations, gradient="unrolled"),
        "ours, tolerance 1e-4": lambda c: sinkhorn(c, a, b, eps=TIMED, iterations=iterations, tolerance=1e-4),
    }
    rows: dict[str, Any] = {}
    for name, way in ways.items():

        def forward(way: Callable[[Tensor], Tensor] = way) -> float:
            with torch.no_grad():
                return 1e3 * seconds(lambda: way(cost), repeats, device)

        def backward(way: Callable[[Tensor], Tensor] = way) -> float:
            return 1e3 * seconds(lambda: gradient(way, cost, weights), max(1, repeats // 2), device)

        rows[name] = {"forward_ms": attempt(forward), "backward_ms": attempt(backward)}
    out: dict[str, Any] = {"ways": rows}
    for key in ("forward_ms", "backward_ms"):
        out["speed_up_" + key[:-3]] = attempt(lambda key=key: rows["plain"][key] / rows["ours"][key])  # type: ignore[misc]
    implicit, unrolled = (attempt(lambda way=ways[name]: gradient(way, cost, weights)) for name in ("ours", "plain"))  # type: ignore[misc]
    out["gradient_difference"] = attempt(lambda: float((implicit - unrolled).norm() / unrolled.norm()))
    return out


def errors(shape: tuple[int, int, int], iterations: int, device: str) -> list[dict[str, Any]]:
    """For each ε and type: distances from float64, of our plan and the plain one, and whether all is finite."""
    cost, a, b = problem(shape, device, seed=2)
    rows = []
    for eps in EPS:
        for name, dtype in TYPES.items():

            def one(eps: float = eps, dtype: torch.dtype = dtype) -> dict[str, Any]:
                given = cost.to(dtype)
                truth = plain(given.double(), a.double(), b.double(), eps, iterations)
                leaf = given.clone().requires_grad_()
                ours = sinkhorn(leaf, a, b, eps=eps, iterations=iterations)
                (ours * cost).sum().backward()
                other = plain(given.float(), a, b, eps, iterations)
                return {
                    "error": float((ours.detach() - truth).abs().sum((1, 2)).max() / 2),
                    "error_of_the_plain_loop": float((other - truth).abs().sum((1, 2)).max() / 2),
                    "not_converged": float((truth.sum(2) - a).abs().sum(1).max() / 2),
                    "finite": bool(ours.isfinite().all())
                    and leaf.grad is not None
                    and bool(leaf.grad.isfinite().all()),
                }

            found = attempt(one)
            rows.append({"eps": eps, "type": name} | (found if isinstance(found, dict) else {"failed": found}))
    return rows


def kernel_settings(shape: tuple[int, int, int], iterations: int, repeats: int) -> dict[str, Any]:
    """Milliseconds of the GPU kernel alone for several tiles and numbers of warps."""
    from conceptlens.nn.transport import sinkhorn_triton

    cost, a, b = problem(shape, "cuda")
    scaled, log_a, log_b = cost / TIMED, a.log(), b.log()
    kept = sinkhorn_triton.TILE, sinkhorn_triton.WARPS
    found = {}
    for tile, warps in TILES:
        sinkhorn_triton.TILE, sinkhorn_triton.WARPS = tile, warps

        def run() -> float:
            return 1e3 * seconds(lambda: sinkhorn_triton.solve(scaled, log_a, log_b, iterations, 0.0), repeats, "cuda")

        found[f"tile {tile}, {warps} warps"] = attempt(run)
    sinkhorn_triton.TILE, sinkhorn_triton.WARPS = kept
    return found | {"in use": f"tile {kept[0]}, {kept[1]} warps"}


def said(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def show(row: dict[str, Any]) -> None:
    for name, way in row["ways"].items():
        print(f"  {name:22} forward {said(way['forward_ms']):>8} ms, with gradient {said(way['backward_ms']):>8} ms")
    print(f"  speed-up {said(row['speed_up_forward'])}, with gradient {said(row['speed_up_backward'])}; ", end="")
    print(f"gradients differ by {said(row['gradient_difference'])}; kernel: {row['kernel']}")
    for line in row["errors"]:
        print("  " + ", ".join(f"{key} {said(value)}" for key, value in line.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", nargs="+", choices=("cpu", "cuda"))
    for name, value in (("images", 64), ("patches", 196), ("concepts", 312), ("iterations", 100), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    shape = (arguments.images, arguments.patches, arguments.concepts)
    rows = []
    for device in arguments.device or (["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]):
        about = machine(device)
        print(", ".join(f"{key} {value}" for key, value in about.items()), flush=True)
        row: dict[str, Any] = {"machine": about, "shape": list(shape), "iterations": arguments.iterations, "eps": TIMED}
        row |= times(shape, arguments.iterations, arguments.repeats, device)
        row["kernel"] = "not for this device" if device == "cpu" else failures.get(module.KERNEL, "used")
        if device == "cuda":
            row["kernel_ms"] = attempt(lambda: kernel_settings(shape, arguments.iterations, arguments.repeats))
            print(f"  {row['kernel_ms']}")
        few = (min(shape[0], 4), *shape[1:])  # float64 is slow, and images do not depend on each other
        row["errors"] = errors(few, arguments.iterations, device)
        show(row)
        rows.append(row)
        if arguments.json:  # after each device: what is measured stays if a later one fails
            write_json(arguments.json, {"rows": rows})


if __name__ == "__main__":
    main()
