"""The images whose maps are judged, in pieces: by this process, or by the processes of an engine."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from conceptlens.core.engines.pieces import Workers, exit_code
from conceptlens.core.errors import UserError
from conceptlens.core.files import fingerprint, write_bytes
from conceptlens.core.network import is_offline
from conceptlens.data.regions.regions import Regions, read_regions, region_names
from conceptlens.data.splits.spread import spread
from conceptlens.evaluation.images import judged_images
from conceptlens.evaluation.localization import fit_center_prior
from conceptlens.evaluation.localization.concept_parts import concept_parts
from conceptlens.evaluation.localization.judging import (
    BATCH,
    Bench,
    Found,
    Indices,
    image_free_maps,
    image_maps_of,
    join,
    judge,
    other_regions,
)
from conceptlens.explanations.maps.concept_maps import USUAL, Kind

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun

MOST = 20_000  # images, where nobody says how many: every measure of every map is in memory
PIECE = 16 * BATCH
TASK = f"{__name__}:do_piece"


@dataclass(frozen=True)
class Question:
    """What is judged; every process can make the same bench of it."""

    split: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    where: str = "visible"
    n: int | None = None
    sigma: float | None = None
    maps: tuple[Kind, ...] = USUAL


@dataclass(frozen=True)
class Prepared:
    """A bench, and what it was made of."""

    bench: Bench
    names: tuple[str, ...]  # of the regions
    parts: Indices  # (K,): positions of the concepts' regions
    fit: Regions  # of other images
    fitted_on: str
    widths: dict[str, float]  # of center priors


def prepare(run: "OpenedRun", question: Question) -> Prepared:
    """Open the images, and fit the maps that know nothing of them."""
    pipeline, card, concepts, device = run.pipeline, run.card, run.concepts, run.device
    judged = judged_images(run, question.data or None, question.split)
    judged = replace(judged, indices=spread(judged.indices, question.n or MOST))
    names = region_names(judged.source)
    parts = concept_parts(concepts, names, judged.config.regions.concepts)
    grid = pipeline.encoder.grid(card.image_size, card.image_size)

    def regions_of(indices: Indices) -> Regions:
        return read_regions(judged.source, indices, size=card.image_size, fit=card.fit, grid=grid)

    fitted_on, fit_images, fit = other_regions(judged, regions_of)
    part_of = {"object": torch.zeros(len(concepts), dtype=torch.int64, device=device)}
    if (parts > 0).any():  # position 0 is the object
        part_of["part"] = torch.from_numpy(parts).to(device)
    expected = pipeline.model.expected_maps(grid)
    widths = fit_center_prior(fit) if question.sigma is None else dict.fromkeys(fit.parts, question.sigma)
    bench = Bench(
        pipeline,
        card,
        judged,
        concepts,
        grid,
        part_of,  # type: ignore[arg-type]  # a dict's keys are invariant
        fixed=image_free_maps(fit, widths, device),
        of_image=image_maps_of(pipeline, card, judged, fit_images, fit, device),
        prior=None if expected is None else expected.float().to(device),
        where=question.where,  # type: ignore[arg-type]  # checked by who asks
        kinds=question.maps,
    )
    return Prepared(bench, tuple(names), parts, fit, fitted_on, widths)


def judge_all(
    prepared: Prepared, run: "OpenedRun", question: Question, workers: Workers, note: Callable[[str], object]
) -> Found:
    """Measures of every map of the judged images that have regions; who works on them makes no difference."""
    indices = prepared.bench.judged.indices
    pieces = -(-len(indices) // PIECE)
    if workers.alone:
        return join(_judge(prepared, piece) for piece in range(pieces))
    if run.memory is not None:
        raise UserError("localize: the data of this run is in memory, which other processes do not see. Use one job.")
    words = json.dumps(asdict(question), sort_keys=True)
    examples = prepared.bench.judged.source.examples
    about = (run.card.weights_hash, words, examples.fingerprint, prepared.fit.cover.tobytes())
    # Hidden, as it is gone in the end; its name says what it is of, so that what was stopped goes on.
    folder = run.path / f".localize-{fingerprint(*about)}"
    folder.mkdir(exist_ok=True)
    arguments = {"run": str(run.path.absolute()), "question": words, "local": is_offline()}
    files = workers.make(pieces, TASK, arguments, folder, note)
    found = join(Found.from_bytes(file.read_bytes()) for file in files)
    shutil.rmtree(folder)
    return found


def _judge(prepared: Prepared, piece: int) -> Found:
    return judge(prepared.bench, np.asarray(prepared.bench.judged.indices[piece * PIECE : (piece + 1) * PIECE]))


@lru_cache(maxsize=1)
def _prepared(run: str, question: str) -> Prepared:
    from conceptlens.runs.opened import OpenedRun

    values = json.loads(question)
    return prepare(OpenedRun.open(run), Question(**{**values, "maps": tuple(values["maps"])}))


def do_piece(run: str, question: str, local: bool, piece: int, file: str) -> int:
    """Judge one piece of the images; 0, or 1 where something is wrong."""
    return exit_code(lambda: write_bytes(Path(file), _judge(_prepared(run, question), piece).to_bytes()), local=local)
