"""The audit's passes over a run's images: by this process, or in pieces by the processes of an engine."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.torch import save
from torch import Tensor

from conceptlens.core.engines.pieces import Workers, exit_code
from conceptlens.core.errors import UserError
from conceptlens.core.files import fingerprint, write_bytes
from conceptlens.data.splits.spread import spread
from conceptlens.encoders.weights_file import read_weights
from conceptlens.evaluation.codebook.passes import Found, Pass, Plan, join, look
from conceptlens.evaluation.codebook.stream import TokenStream, open_stream
from conceptlens.evaluation.ood.codebook_distance import OutOfDistribution, detect_ood, fit_distribution
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.predictions import StoredPredictions

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
TRAINING = 256  # images that define what is in distribution
MAPS = 9  # images with index maps
PLAN = "plan.safetensors"
TASK = f"{__name__}:do_piece"


@dataclass(frozen=True)
class Sides:
    """Predictions to judge and predictions to calibrate on, with their positions in the data."""

    judged: StoredPredictions
    rows: Indices
    calibration: StoredPredictions
    calibration_rows: Indices
    note: str | None = None


def look_at_all(
    stream: TokenStream,
    run: OpenedRun,
    sides: Sides,
    split: str,
    rate: float,
    resamples: int,
    workers: Workers,
    note: Callable[[str], object],
) -> tuple[Pass, OutOfDistribution]:
    """Some training images, the calibration images, the judged ones."""
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
    if workers.alone:
        pieces = (look(stream, plan, piece, codebook) for piece in range(plan.all_pieces))
        found, before = join(stream, plan, pieces, run.source)
    else:
        found, before = _shared(stream, run, plan, codebook, workers, note)
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


def _shared(
    stream: TokenStream,
    run: OpenedRun,
    plan: Plan,
    codebook: Tensor | None,
    workers: Workers,
    note: Callable[[str], object],
) -> tuple[Pass, Floats]:
    if run.memory is not None:
        raise UserError("audit: the data of this run is in memory, which other processes do not see. Use one job.")
    written = save({name: value.contiguous() for name, value in plan.to_tensors().items()})
    # Hidden, as it is gone in the end; its name says what it is of, so that an audit that was stopped goes on.
    folder = run.path / f".audit-{fingerprint(run.card.weights_hash, written)}"
    write_bytes(folder / PLAN, written)
    place = {"run": str(run.path.absolute()), "folder": str(folder.absolute())}
    files = workers.make(plan.all_pieces, TASK, place, folder, note)

    def pieces() -> Iterator[Found]:
        for file in files:
            yield Found.from_tensors(_read(file), codebook)

    found = join(stream, plan, pieces(), run.source)
    shutil.rmtree(folder)
    return found


def _read(file: Path) -> dict[str, Tensor]:
    return read_weights(file)


@lru_cache(maxsize=1)
def _opened(run: str, folder: str) -> tuple[TokenStream, Plan, Tensor | None]:
    opened = OpenedRun.open(run)
    plan = Plan.from_tensors(_read(Path(folder) / PLAN))
    stream = open_stream(opened, ExitStack())  # until this process ends
    return stream, plan.to(stream.device), _codebook(opened)


def do_piece(run: str, folder: str, piece: int, file: str) -> int:
    """Look at the images of one piece; 0, or 1 where something is wrong."""

    def work() -> None:
        stream, plan, codebook = _opened(run, folder)
        found = look(stream, plan, piece, codebook)
        write_bytes(Path(file), save({name: value.contiguous() for name, value in found.to_tensors().items()}))

    return exit_code(work, local=True)
