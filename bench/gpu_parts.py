"""Where our step's time goes: its parts one by one, and the device's busiest kernels. For `bench/gpu.py`."""

from typing import Any

import torch
from torch import Tensor

from conceptlens.encoders.contract import Tokens
from conceptlens.training.batches.augment import augment
from conceptlens.training.optimization import compiled
from conceptlens.training.optimization.optimizer import clip_gradients
from conceptlens.training.records.ranks import mean_ranks
from gpu_bench import Bench
from gpu_variants import Bare, Ours


def breakdown(bench: Bench, ours: Ours, bare: Bare) -> dict[str, float]:
    """Milliseconds of the parts of our step, each compiled and timed alone, at the large batch."""
    stage, session, batch = ours.stage, ours.session, ours.variant.batch
    pipeline, loss = session.pipeline, stage.targets.loss
    indices = session.splits.train[:batch]
    index = torch.from_numpy(indices).to(bench.device)
    pixels, views = ours.session.inputs.batch(indices), stage.draw(0)
    quick = torch.compile(augment, dynamic=False, backend=compiled.BACKEND)
    targets, counts = stage.targets.targets(index), stage.targets.counts(index)
    with torch.no_grad():
        tokens = pipeline.encoder(augment(pixels, views[0]))
    leaf, grid = tokens.patches.detach().requires_grad_(), tokens.grid

    def behind(patches: Tensor) -> Tensor:
        with session.processes.autocast():
            output = pipeline.read(Tokens(patches, grid))
        return torch.stack(list(loss(output, targets, counts).values())).sum()

    read = torch.compile(behind, dynamic=False, backend=compiled.BACKEND)

    def bottleneck() -> None:
        read(leaf).backward()
        leaf.grad = None
        for parameter in pipeline.parameters():
            parameter.grad = None

    def encoder() -> None:
        bare.gradients(bare.order[0])
        bare.optimizer.zero_grad(set_to_none=True)

    parts = {
        "draw and send": lambda: stage.draw(0),
        "gather images and labels": lambda: (
            ours.session.inputs.batch(indices),
            stage.targets.targets(index),
            stage.targets.counts(index),
        ),
        "augment": lambda: quick(pixels, views[0]),
        "bottleneck and losses, forward and backward": bottleneck,
        "encoder, forward and backward (the bare one's)": encoder,
    }
    found = {name: 1000 * bench.median(work) for name, work in parts.items()}
    for parameter in stage.parameters:
        parameter.grad = torch.zeros_like(parameter)
    found["clip"] = 1000 * bench.median(lambda: clip_gradients(stage.parameters, 1.0))
    found["optimizer"] = 1000 * bench.median(stage.optimizer.step)
    stage.optimizer.zero_grad(set_to_none=True)
    few = tokens.patches[: session.recipe.training.rank_images].float().cpu()
    found["rank of 8 images, on a thread beside, every 50 steps"] = 1000 * bench.median(lambda: mean_ranks(few), 3)
    return found


def kernels(bench: Bench, ours: Ours, top: int = 20) -> dict[str, Any]:
    """Where the device's time goes: its busiest kernels in a round of ours, and how much of the time it had work."""
    from torch.profiler import ProfilerActivity, profile

    kind = ProfilerActivity.CUDA if bench.device.type == "cuda" else ProfilerActivity.CPU
    with profile(activities=[kind]) as recorded:
        seconds = bench.time(ours.round)
    attribute = "self_device_time_total" if bench.device.type == "cuda" else "self_cpu_time_total"
    rows = sorted(recorded.key_averages(), key=lambda row: -getattr(row, attribute))
    steps = ours.variant.steps
    busy = sum(getattr(row, attribute) for row in rows) / 1e6
    return {
        "busy_share": busy / seconds,
        "kernel_ms_per_step": 1000 * busy / steps,
        "kernels_per_step": sum(row.count for row in rows) / steps,
        "busiest": [
            {"name": row.key[:110], "ms_per_step": getattr(row, attribute) / 1000 / steps, "calls": row.count / steps}
            for row in rows[:top]
        ],
    }
