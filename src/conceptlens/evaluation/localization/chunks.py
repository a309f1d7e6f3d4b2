"""Measures of the maps of many images, a chunk at a time: by this process, or by several processes of an engine."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from conceptlens.core.engines.workers import Workers, exit_code
from conceptlens.core.errors import UserError
from conceptlens.core.files import fingerprint, write_bytes
from conceptlens.core.network import is_offline
from conceptlens.data.regions.regions import Regions, read_regions, region_names
from conceptlens.data.splits.spread import spread
from conceptlens.evaluation.images import judged_images
from conceptlens.evaluation.localization import fit_center_prior
from conceptlens.evaluation.localization.concept_parts import concept_parts
from conceptlens.evaluation.localization.map_measures import (
    BATCH,
    Bench,
    Indices,
    MapMeasures,
    image_free_maps,
    image_maps_of,
    measure_maps,
    merge,
    other_regions,
)
from conceptlens.explanations.maps.concept_maps import USUAL, Kind

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun

MOST = 20_000  # images, where nobody says how many: every measure of every map is in memory
CHUNK = 16 * BATCH
TASK = f"{__name__}:measure_chunk"


@dataclass(frozen=True)
class MapSettings:
    """Which maps of which images are measured, and how: from this, every process makes the same bench."""

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


def prepare(run: "OpenedRun", settings: MapSettings) -> Prepared:
    """Open the images, and fit the image-free maps on other images."""
    pipeline, card, concepts, device = run.pipeline, run.card, run.concepts, run.device
    judged = judged_images(run, settings.data or None, settings.split)
    judged = replace(judged, indices=spread(judged.indices, settings.n or MOST))
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
    widths = fit_center_prior(fit) if settings.sigma is None else dict.fromkeys(fit.parts, settings.sigma)
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
        where=settings.where,  # type: ignore[arg-type]  # checked by `localize_run`
        kinds=settings.maps,
    )
    return Prepared(bench, tuple(names), parts, fit, fitted_on, widths)


def measure_all(
    prepared: Prepared, run: "OpenedRun", settings: MapSettings, workers: Workers, note: Callable[[str], object]
) -> MapMeasures:
    """Measures of every map of the judged images that have regions; the same for any number of processes."""
    indices = prepared.bench.judged.indices
    chunks = -(-len(indices) // CHUNK)
    if workers.in_process:
        return merge(_measure(prepared, chunk) for chunk in range(chunks))
    if run.memory is not None:
        raise UserError("localize: the data of this run is in memory, which other processes do not see. Use one job.")
    values = json.dumps(asdict(settings), sort_keys=True)
    examples = prepared.bench.judged.source.examples
    about = (run.card.weights_hash, values, examples.fingerprint, prepared.fit.cover.tobytes())
    # Hidden, as it is removed at the end. Its name is a hash of all that decides the numbers: the same call can go on.
    folder = run.path / f".localize-{fingerprint(*about)}"
    folder.mkdir(exist_ok=True)
    arguments = {"run": str(run.path.absolute()), "settings": values, "local": is_offline()}
    files = workers.compute(chunks, TASK, arguments, folder, note)
    measures = merge(MapMeasures.from_bytes(file.read_bytes()) for file in files)
    shutil.rmtree(folder)
    return measures


def _measure(prepared: Prepared, chunk: int) -> MapMeasures:
    return measure_maps(prepared.bench, np.asarray(prepared.bench.judged.indices[chunk * CHUNK : (chunk + 1) * CHUNK]))


@lru_cache(maxsize=1)
def _prepared(run: str, settings: str) -> Prepared:
    from conceptlens.runs.opened import OpenedRun

    values = json.loads(settings)
    return prepare(OpenedRun.open(run), MapSettings(**{**values, "maps": tuple(values["maps"])}))


def measure_chunk(run: str, settings: str, local: bool, chunk: int, file: str) -> int:
    """Measure the maps of one chunk of the images; 0, or 1 where something is wrong."""
    return exit_code(lambda: write_bytes(Path(file), _measure(_prepared(run, settings), chunk).to_bytes()), local=local)
