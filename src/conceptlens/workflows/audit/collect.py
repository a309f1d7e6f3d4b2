"""The audit's passes over a run's images: by this process, or in chunks by several processes of an engine."""

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.torch import save
from torch import Tensor

from conceptlens.core.engines.workers import Workers, exit_code
from conceptlens.core.errors import UserError
from conceptlens.core.files import fingerprint, write_bytes
from conceptlens.data.splits.spread import spread
from conceptlens.encoders.weights_file import read_weights
from conceptlens.evaluation.codebook.collect import Collected, Partial, Plan, collect_chunk, merge
from conceptlens.evaluation.codebook.stream import TokenStream, open_stream
from conceptlens.evaluation.ood.codebook_distance import OutOfDistribution, detect_ood, fit_distribution
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.predictions import StoredPredictions

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
TRAINING = 256  # images that define what is in distribution
MAPS = 9  # images with index maps
PLAN = "plan.safetensors"
TASK = f"{__name__}:audit_chunk"


@dataclass(frozen=True)
class Sides:
    """Predictions to judge and predictions to calibrate on, with their positions in the data."""

    judged: StoredPredictions
    rows: Indices
    calibration: StoredPredictions
    calibration_rows: Indices
    note: str | None = None


def collect(
    stream: TokenStream,
    run: OpenedRun,
    sides: Sides,
    split: str,
    rate: float,
    resamples: int,
    workers: Workers,
    note: Callable[[str], object],
) -> tuple[Collected, OutOfDistribution]:
    """Pass over some training images, the calibration images and the judged images."""
    codebook = _codebook(run)
    note("training images: what is in distribution")
    rows = spread(run.splits["train"], TRAINING)
    training = fit_distribution(
        lambda: (tokens.patches for _, tokens in stream.tokens(rows)), codebook, len(run.concepts)
    ).to(stream.device)
    indices = run.splits[split]
    others = sides.calibration_rows if split == "test" else indices[:0]
    note(f"{len(indices)} {split} images" + (f", {len(others)} validation images" if len(others) else ""))
    plan = Plan.of(
        indices, training, run.source, shown=spread(indices, MAPS), calibration=others, codebook=codebook is not None
    )
    if workers.in_process:
        chunks = (collect_chunk(stream, plan, chunk, codebook) for chunk in range(plan.all_chunks))
        found, before = merge(stream, plan, chunks, run.source)
    else:
        found, before = _in_processes(stream, run, plan, codebook, workers, note)
    place = np.empty(len(run.source), np.int64)
    place[found.indices] = np.arange(len(found.indices))
    scores = found.ood_scores[place[sides.rows]]
    if split == "val":
        before = found.ood_scores[place[sides.calibration_rows]]
    ood = detect_ood(training, before, scores, sides.judged.ids, sides.judged.units, rate=rate, resamples=resamples)
    return found, ood


def _codebook(run: OpenedRun) -> Tensor | None:
    codebook: Tensor | None = getattr(run.pipeline.regularizer, "codebook", None)
    return codebook


def _in_processes(
    stream: TokenStream,
    run: OpenedRun,
    plan: Plan,
    codebook: Tensor | None,
    workers: Workers,
    note: Callable[[str], object],
) -> tuple[Collected, Floats]:
    if run.memory is not None:
        raise UserError("audit: the data of this run is in memory, which other processes do not see. Use one job.")
    written = save({name: value.contiguous() for name, value in plan.to_tensors().items()})
    # Hidden, as it is removed at the end. Its name is a hash of all that decides the numbers: the same call can go on.
    folder = run.path / f".audit-{fingerprint(run.card.weights_hash, written)}"
    write_bytes(folder / PLAN, written)
    place = {"run": str(run.path.absolute()), "folder": str(folder.absolute())}
    files = workers.compute(plan.all_chunks, TASK, place, folder, note)

    chunks = (Partial.from_tensors(read_weights(file), codebook) for file in files)
    collected = merge(stream, plan, chunks, run.source)
    shutil.rmtree(folder)
    return collected


@lru_cache(maxsize=1)
def _opened(run: str, folder: str) -> tuple[TokenStream, Plan, Tensor | None]:
    opened = OpenedRun.open(run)
    plan = Plan.from_tensors(read_weights(Path(folder) / PLAN))
    stream = open_stream(opened, ExitStack())  # until this process ends
    return stream, plan.to(stream.device), _codebook(opened)


def audit_chunk(run: str, folder: str, chunk: int, file: str) -> int:
    """Read the images of one chunk; 0, or 1 where something is wrong."""

    def work() -> None:
        stream, plan, codebook = _opened(run, folder)
        partial = collect_chunk(stream, plan, chunk, codebook)
        write_bytes(Path(file), save({name: value.contiguous() for name, value in partial.to_tensors().items()}))

    return exit_code(work, local=True)
