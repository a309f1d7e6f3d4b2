"""What a training step costs: as the data grows, with rank tracking, and beside the published way of tracking it.

    python bench/step.py [--steps 30] [--json FILE]

`published tracking` is what the published IVQ-CBM does in every forward pass: a full SVD of each image's patches, in a
Python loop.
"""

import argparse
import contextlib
import json
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from conceptlens.core.processes import Launched
from conceptlens.methods.contract import ConceptOutput, Pipeline
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.folder import RunFolder
from conceptlens.training.batches.stored import stored_tokens
from conceptlens.training.loop import TrainStage, stages_of
from conceptlens.training.records.checkpoint import Position, StateFolder
from conceptlens.training.records.history import History
from conceptlens.training.records.progress import Progress
from conceptlens.training.train import open_session


class Enough(Exception):
    """Raised after the last step that is measured."""


class Stopwatch(Progress):
    """Notes when each step ends."""

    def __init__(self, steps: int) -> None:
        super().__init__(quiet=True)
        self.times, self.steps = [time.perf_counter()], steps

    def step(self, *_: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.times.append(time.perf_counter())
        if len(self.times) > self.steps:
            raise Enough


def published_tracking(pipeline: Pipeline) -> None:
    """Make every forward pass measure rank as the published code does."""
    real = pipeline.forward

    def forward(
        images: torch.Tensor, second: torch.Tensor | None = None, *, draws: torch.Tensor | None = None
    ) -> ConceptOutput:
        output = real(images, second, draws=draws)
        assert output.patches is not None
        for matrix in output.patches.detach():
            _, sigma, _ = torch.linalg.svd(matrix, full_matrices=False)
            int((sigma.cumsum(0) / sigma.sum() <= 0.99).sum())
        return output

    pipeline.forward = forward  # type: ignore[method-assign]


def milliseconds(steps: int, n: int, *, rank_every: int = 0, published: bool = False, cache_mb: int = 0) -> float:
    """Median time of a step on drawn images."""
    recipe = {
        "data": {"source": "shapes", "shapes": {"n": n}, "cache_mb": cache_mb},
        "encoder": {"name": "builtin/vit-mini"},
        "method": "ivq-cbm",
        "training": {"rank_every": rank_every, "learning_rate": 1e-3},
    }
    return float(np.median(step_times(recipe, steps, published=published)))


def step_times(tree: dict[str, Any], steps: int, *, published: bool = False) -> list[float]:
    """Milliseconds of each step of a recipe's training, without the first three."""
    with tempfile.TemporaryDirectory() as folder:
        recipe = load_recipe({**tree, "out": f"{folder}/run"})
        watch = Stopwatch(steps)
        session = open_session(recipe, None, Launched(), watch)
        run = RunFolder(Path(recipe.out))
        run.path.mkdir()
        learning = {name for name, parameter in session.pipeline.named_parameters() if parameter.requires_grad}
        if published:
            published_tracking(session.pipeline)
        with stored_tokens(session):
            stage = TrainStage(
                session,
                stages_of(session.recipe)[0],
                learning,
                Position(),
                StateFolder(run.path),
                History(run.history),
                session.inputs.batch(session.splits.train[:16]),
            )
            watch.times = [time.perf_counter()]
            with contextlib.suppress(Enough):
                while True:
                    stage.train_epoch()
                    stage.position.step = 0
        return (np.diff(watch.times)[3:] * 1000).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3, help="the quickest round counts; all variants take turns")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    variants: dict[str, dict[str, Any]] = {
        "1,000 images, no rank tracking": {"n": 1_000},
        "10,000 images, no rank tracking": {"n": 10_000},
        "100,000 images, no rank tracking": {"n": 100_000},
        "1,000 images, images kept in memory": {"n": 1_000, "cache_mb": 512},
        "1,000 images, rank of 8 images at every step": {"n": 1_000, "rank_every": 1},
        "1,000 images, published tracking at every step": {"n": 1_000, "published": True},
    }
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(args.rounds):
        for name, options in variants.items():
            times[name].append(milliseconds(args.steps, **options))
    rows = [(name, min(values)) for name, values in times.items()]
    for name, value in rows:
        print(f"{name:50}{value:9.1f} ms a step")
    base, tracked = rows[0][1], rows[4][1]
    share = max(tracked - base, 0) / 50 / base
    print(f"tracking every 50 steps, the default, adds {share:.2%} to the step")
    print(f"100,000 images cost {rows[2][1] / base:.2f} × what 1,000 images cost")
    if args.json:
        machine = {"system": platform.platform(), "torch": torch.__version__, "threads": torch.get_num_threads()}
        args.json.write_text(
            json.dumps({"schema": 1, "machine": machine, "milliseconds": dict(rows), "tracking_share": share}, indent=1)
            + "\n",
            "utf-8",
        )


if __name__ == "__main__":
    main()
