"""Measures of every map of every image: the method's own, Grad-CAM, and maps that know nothing of its concepts."""

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.regions.regions import Regions, read_regions
from conceptlens.data.regions.tables import OBJECT
from conceptlens.data.splits.spread import spread
from conceptlens.evaluation.images import Judged
from conceptlens.evaluation.localization.baselines import (
    center_prior_maps,
    central_cell_map,
    mean_cell_maps,
    mean_region_maps,
)
from conceptlens.evaluation.localization.concentration import likeness_to_next
from conceptlens.evaluation.localization.image_maps import ImageMaps, fit_image_maps
from conceptlens.evaluation.localization.measures import measure, truth_of
from conceptlens.evaluation.localization.specificity import value_specificity
from conceptlens.evaluation.localization.summary import Columns
from conceptlens.explanations.maps.concept_maps import KINDS, USUAL, Kind, concept_maps
from conceptlens.methods.contract import Pipeline
from conceptlens.nn.heads.probabilities import concept_labels_of
from conceptlens.runs.saved import Card

Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Where = Literal["visible", "present"]
Target = Literal["object", "part"]
FIT, FIT_PIXELS = 1000, 128  # images at most by which image-free maps, and maps of pixels, are fitted
BATCH = 32
IMAGE_FREE = ("uniform", "center_prior", "central_cell", "mean_region", "mean_cell")
PERFECT, PRIOR = "perfect", "prior"
OTHER_IMAGE = "other_image"


@dataclass(frozen=True)
class Bench:
    """What stays the same over all batches."""

    pipeline: Pipeline
    card: Card
    judged: Judged
    concepts: ConceptSet
    grid: tuple[int, int]
    part_of: dict[Target, Tensor]  # (K,) positions of regions; −1 for a concept that has none
    fixed: dict[str, Tensor]  # image-free maps of the regions, (R, L) each
    of_image: ImageMaps
    prior: Tensor | None  # (K, L): where the method expects each concept
    where: Where
    kinds: tuple[Kind, ...] = USUAL


@dataclass(frozen=True)
class MapMeasures:
    """Measures of N images."""

    columns: dict[Target, dict[str, Columns]]  # by target and map: a measure's (N, K)
    predicted: Flags  # (N, K): which concepts the model says are there
    images: Indices  # (N,): those that have regions
    place: str  # where Grad-CAM looked

    def to_bytes(self) -> bytes:
        """As an archive of arrays that `from_bytes` reads."""
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {"predicted": self.predicted, "images": self.images, "place": np.array(self.place)}
        for target, maps in self.columns.items():
            for name, measures in maps.items():
                arrays |= {f"{target}/{name}/{key}": values for key, values in measures.items()}
        np.savez(buffer, **arrays)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> "MapMeasures":
        columns: dict[Any, Any] = {}
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            for entry in file.files:
                target, slash, rest = entry.partition("/")
                if slash:
                    name, _, key = rest.partition("/")
                    columns.setdefault(target, {}).setdefault(name, {})[key] = file[entry]
            return cls(columns, file["predicted"], file["images"], str(file["place"]))


def other_regions(judged: Judged, regions_of: Callable[[Indices], Regions]) -> tuple[str, Indices, Regions]:
    """Images and regions by which blind maps are made: others than the judged ones, where any have regions."""
    if not judged.same:
        indices = spread(judged.fit_on, FIT)
        found = regions_of(indices)
        if found.seen.any():
            return judged.fit_name, indices, found
    indices = spread(judged.indices, FIT)
    return "the judged images", indices, regions_of(indices)


def image_free_maps(regions: Regions, widths: Mapping[str, float], device: torch.device) -> dict[str, Tensor]:
    """Maps (R, L) of the regions of other images; a part that none of them shows gets the object's center prior."""
    usual = widths.get(OBJECT, 0.25)
    count, cells = regions.cover.shape[1:]
    maps = {
        "uniform": torch.ones(count, cells),
        "center_prior": center_prior_maps([widths.get(part, usual) for part in regions.parts], regions.grid),
        "central_cell": central_cell_map(regions.grid).expand(count, -1),
        "mean_region": torch.from_numpy(mean_region_maps(regions)).float(),
        "mean_cell": torch.from_numpy(mean_cell_maps(regions)).float(),
    }
    return {name: values.to(device) for name, values in maps.items()}


@torch.no_grad()
def image_maps_of(
    pipeline: Pipeline, card: Card, judged: Judged, indices: Indices, regions: Regions, device: torch.device
) -> ImageMaps:
    """Maps of pixels and tokens, fitted on some of these images, whose regions are given."""
    rows = spread(np.flatnonzero(regions.seen.any(1)), FIT_PIXELS)
    images: list[Tensor] = []
    patches: list[Tensor] = []
    with PixelReader(judged.source, card.image_size, card.fit, cache_mb=0) as reader:
        for start in range(0, len(rows), BATCH):
            images.append(reader.batch(indices[rows[start : start + BATCH]]).to(device).float() / 255)
            patches.append(pipeline.encoder(images[-1]).patches)
    cover, seen = (torch.from_numpy(values[rows]).to(device) for values in (regions.cover, regions.seen))
    return fit_image_maps(images, patches, cover, seen, regions.grid)


def measure_maps(bench: Bench, indices: Indices) -> MapMeasures:
    """Measures of every map of the images that have regions."""
    columns: dict[Target, dict[str, dict[str, list[npt.NDArray[Any]]]]] = {target: {} for target in bench.part_of}
    kept: list[Indices] = []
    predicted: list[Flags] = []
    place = ""
    card, device = bench.card, next(bench.pipeline.parameters()).device
    with PixelReader(bench.judged.source, card.image_size, card.fit, cache_mb=0) as reader:
        for start in range(0, len(indices), BATCH):
            batch = indices[start : start + BATCH]
            regions = read_regions(bench.judged.source, batch, size=card.image_size, fit=card.fit, grid=bench.grid)
            some = regions.seen.any(1)
            if not some.any():
                continue
            pixels = reader.batch(batch).to(device)
            made = concept_maps(bench.pipeline, pixels, bench.kinds)
            if made.grid != bench.grid:
                raise UserError(
                    f"{bench.pipeline.encoder.name}: its tokens form a grid {made.grid}, not {bench.grid} as it says."
                )
            kept.append(batch[some])
            predicted.append(concept_labels_of(made.concept_logits.double().cpu().numpy()[some], bench.concepts) == 1)
            place = made.place
            # Maps that know no concepts are the same for all that speak of a part: they are measured once a part.
            every = truth_of(regions, torch.arange(len(regions.parts), device=device))
            still = {name: maps.expand(len(batch), -1, -1) for name, maps in bench.fixed.items()}
            seeing = bench.of_image(pixels.float() / 255, made.patches)
            blind = {name: measure(maps, every) for name, maps in {**still, **seeing, PERFECT: every.cover}.items()}
            alike = {name: likeness_to_next(maps) for name, maps in made.maps.items()}
            asked = _asked(bench, batch, device)
            for target, part_of in bench.part_of.items():
                truth = truth_of(regions, part_of.clamp(min=0))
                truth = replace(truth, seen=truth.seen & (part_of >= 0) & asked)
                own = dict(made.maps)
                if bench.prior is not None:
                    own[PRIOR] = bench.prior.expand(len(batch), -1, -1)
                measured = {name: measure(maps, truth) for name, maps in own.items()}
                for name, values in alike.items():
                    measured[name][OTHER_IMAGE] = torch.where(truth.seen, values, torch.nan)
                for name, numbers in blind.items():
                    gathered = {key: values[:, part_of.clamp(min=0)] for key, values in numbers.items()}
                    measured[name] = {key: torch.where(truth.seen, one, torch.nan) for key, one in gathered.items()}
                for name, numbers in measured.items():
                    into = columns[target].setdefault(name, {})
                    for key, values in numbers.items():
                        into.setdefault(key, []).append(values.cpu().numpy()[some])
    if not kept:
        return MapMeasures({}, np.zeros((0, len(bench.concepts)), dtype=bool), indices[:0], "")
    rows = np.concatenate(kept)
    joined = {target: {name: _joined(found) for name, found in maps.items()} for target, maps in columns.items()}
    labels = bench.judged.source.examples.concepts[rows]
    for target, maps in joined.items():
        parts = bench.part_of[target].cpu().numpy()
        for name in maps:
            if name in KINDS:
                precision = maps[name]["average_precision"]
                maps[name]["value_specificity"] = value_specificity(precision, labels, parts, bench.concepts)
    return MapMeasures(joined, np.concatenate(predicted), rows, place)  # type: ignore[arg-type]  # a dict's values are invariant


def merge(parts: Iterable[MapMeasures]) -> MapMeasures:
    """The measures of all images, in the order of the parts; empty if no image has regions."""
    every = list(parts)
    some = [part for part in every if len(part.images)]
    if not some:
        return every[0]
    first = some[0].columns
    columns = {
        target: {
            name: {key: np.concatenate([part.columns[target][name][key] for part in some]) for key in measures}
            for name, measures in maps.items()
        }
        for target, maps in first.items()
    }
    predicted, kept = (
        np.concatenate(parts) for parts in ([part.predicted for part in some], [part.images for part in some])
    )
    return MapMeasures(columns, predicted, kept, some[0].place)  # type: ignore[arg-type]  # as above


def _joined(found: Mapping[str, list[npt.NDArray[Any]]]) -> dict[str, npt.NDArray[np.float64]]:
    return {key: np.concatenate(rows).astype(np.float64) for key, rows in found.items()}


def _asked(bench: Bench, batch: Indices, device: torch.device) -> Tensor:
    """Which concepts' maps count in which images, (B, K)."""
    labels = torch.from_numpy(bench.judged.source.examples.concepts[batch]).to(device)
    asked = torch.ones_like(labels, dtype=torch.bool) if bench.where == "visible" else labels == 1
    return asked & torch.from_numpy(~bench.concepts.placeless).to(device)  # absence has no place
