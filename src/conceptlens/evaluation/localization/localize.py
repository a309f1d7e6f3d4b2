"""Do the maps of a trained run point at the object, and at the part that each concept speaks of?

Every method is judged by its own map, where it has one, and by Grad-CAM on its tokens, which is the same for all; both
beside image-free maps (see `evaluation.localization.baselines`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, PrivateAttr
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.core.documents import Document, TableRow
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.regions.regions import Regions, read_regions, region_names
from conceptlens.data.regions.tables import OBJECT
from conceptlens.data.splits.spread import spread
from conceptlens.evaluation.images import Judged, judged_images
from conceptlens.evaluation.localization import (
    center_prior_maps,
    central_cell_map,
    differences,
    fit_center_prior,
    mean_region_maps,
    measure,
    summarize,
    truth_of,
)
from conceptlens.evaluation.localization.concept_parts import concept_parts
from conceptlens.evaluation.localization.overlap import FIXED, THRESHOLDS
from conceptlens.evaluation.localization.summary import Columns, estimate_cells
from conceptlens.evaluation.localization.text import localization_text
from conceptlens.evaluation.localization.verdict import AP, NOTHING, POINTING, judge_map, map_numbers
from conceptlens.evaluation.verdict import Numbers, Verdict
from conceptlens.explanations.maps.concept_maps import GRADCAM, OWN, concept_maps
from conceptlens.methods.contract import Pipeline
from conceptlens.nn.heads.probabilities import concept_probabilities_of
from conceptlens.recipes import MetricsConfig
from conceptlens.runs.predictions import units_of
from conceptlens.runs.saved import Card

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun

Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Where = Literal["visible", "present"]
Target = Literal["object", "part"]
FIT, CHOOSE = 1000, 256  # images at most by which center priors are fitted, and a threshold of IoU is chosen
BATCH = 32
IMAGE_FREE = ("uniform", "center_prior", "central_cell", "mean_region")
PERFECT, PRIOR = "perfect", "prior"


class Localization(Document):
    """Where the maps point."""

    remedy = "Measure it again with `conceptlens localize RUN`."

    run: str
    method: str
    data: str
    data_hash: str
    split: str
    images: int
    grid: list[int]
    fit: str
    where: str
    maps: dict[str, str | None]  # what each map is, in words
    center_prior: dict[str, Any]
    iou_threshold_from: str
    targets: dict[str, dict[str, Any]]  # object and part: numbers of every map
    concept_part: dict[str, str | None]
    verdict: Verdict = Verdict(outcome="unmeasured", reason="It was measured by an earlier version. Measure it again.")
    map_verdicts: dict[str, Verdict] = Field(default_factory=dict)  # of each kind of map; the first is the run's
    numbers: Numbers = Field(default_factory=lambda: dict(NOTHING))
    _file: str = PrivateAttr(default="localization.json")

    @property
    def default_file(self) -> str:
        """Its place in the run folder; other data is named in it."""
        return self._file

    def text(self) -> str:
        return "\n".join([localization_text(self.to_dict()), "", self.verdict.text()])

    def table(self) -> list[TableRow]:
        """Every measure of every map."""
        return [
            {"target": target, "map": name, "measure": measure, **estimate_cells(estimate)}
            for target, numbers in self.targets.items()
            for name, measures in numbers["maps"].items()
            for measure, estimate in measures.items()
        ]


@dataclass(frozen=True)
class _Bench:
    """What stays the same over all batches."""

    pipeline: Pipeline
    card: Card
    judged: Judged
    concepts: ConceptSet
    grid: tuple[int, int]
    part_of: dict[Target, Tensor]  # (K,) positions of regions; −1 for a concept that has none
    fixed: dict[Target, dict[str, Tensor]]  # image-free maps, (K, L) each
    where: Where


def localize_run(
    run: "OpenedRun",
    *,
    split: str | None = None,
    data: Mapping[str, Any] | None = None,
    where: str = "visible",
    n: int | None = None,
    sigma: float | None = None,
) -> Localization:
    """Judge the maps of a finished run by known regions; nothing is written.

    Args:
        run: The run.
        split: `train`, `val`, `test` or `all`; by default `test` of the run's own data, `all` of other data.
        data: Keys of a recipe's `data` section: other data if they name a `source`; else `regions` of the run's own.
        where: Judge a concept's map in images in which its region is `visible`, or only where the concept is `present`.
        n: At most so many images, evenly spread over the split.
        sigma: Width of the center prior in sides of the image, instead of that of the regions of other images.
    """
    if where not in get_args(Where):
        raise unknown_name("choice of images", where, get_args(Where))
    if n is not None and n < 1:
        raise UserError(f"--n: expected at least 1, found {n}.")
    if sigma is not None and not 0 < sigma < 10:
        raise UserError(f"--sigma: expected a width above 0 in sides of the image, found {sigma}.")
    run.need_concepts("it has no maps of them")
    pipeline, card, concepts, device = run.pipeline, run.card, run.concepts, run.device
    judged = judged_images(run, data, split)
    if n is not None:
        judged = replace(judged, indices=spread(judged.indices, n))
    names = region_names(judged.source)
    parts = concept_parts(concepts, names, judged.config.regions.concepts)
    grid = pipeline.encoder.grid(card.image_size, card.image_size)

    def regions_of(indices: Indices) -> Regions:
        return read_regions(judged.source, indices, size=card.image_size, fit=card.fit, grid=grid)

    fitted_on, fit = _seen(judged, regions_of)
    part_of: dict[Target, Tensor] = {"object": torch.zeros(len(concepts), dtype=torch.int64, device=device)}
    if (parts > 0).any():  # position 0 is the object
        part_of["part"] = torch.from_numpy(parts).to(device)
    widths = fit_center_prior(fit) if sigma is None else dict.fromkeys(fit.parts, sigma)
    mean_region = torch.from_numpy(mean_region_maps(fit)).float().to(device)
    fixed = {target: _fixed(of, widths, mean_region, fit.parts, grid) for target, of in part_of.items()}
    expected = pipeline.model.expected_maps(grid)
    if expected is not None:
        fixed = {target: {**maps, PRIOR: expected.float().to(device)} for target, maps in fixed.items()}
    bench = _Bench(pipeline, card, judged, concepts, grid, part_of, fixed, where)  # type: ignore[arg-type]
    found, said, kept, place = _judge(bench, judged.indices)
    if not len(kept):
        raise UserError(
            f"{judged.source.name}: no image of {judged.split!r} has a known region. Choose another --split."
        )
    chosen_on = spread(judged.choose_on, min(CHOOSE, len(judged.indices)))
    chosen = found if judged.same else _judge(bench, chosen_on)[0]
    units = units_of(judged.source, kept)
    targets = {
        target: _summary(
            found[target], chosen[target], said, _parts_of(target, parts, names), units, judged.metrics, concepts
        )
        for target in part_of
    }
    aim: Target = "part" if "part" in targets else "object"
    predicted = targets[aim]["predicted"]
    kinds = [kind for kind in (OWN, GRADCAM) if kind in predicted["maps"]]
    verdicts = {kind: judge_map(predicted, kind, aim) for kind in kinds}
    localization = Localization(
        run=run.name,
        method=run.info["method"],
        data=judged.source.name,
        data_hash=judged.source.examples.fingerprint,
        split=judged.split,
        images=len(kept),
        grid=list(grid),
        fit=card.fit,
        where=where,
        maps={
            OWN: "attention of the concept's slot" if OWN in found["object"] else None,
            GRADCAM: f"Grad-CAM on tokens, {place}",
            "uniform": "the same everywhere",
            "center_prior": "a Gaussian in the middle of the image",
            "central_cell": "the cell in the middle of the image",
            "mean_region": "the mean region of other images",
            **({} if expected is None else {PRIOR: "where the method expects the part before it sees the image"}),
            PERFECT: "the region itself, cell by cell",
        },
        center_prior={"sigma": widths, "fitted_on": fitted_on if sigma is None else "given", "images": len(fit)},
        iou_threshold_from="the judged images" if judged.same else f"{len(chosen_on)} images of {judged.choose_name}",
        targets={str(target): numbers for target, numbers in targets.items()},
        concept_part={
            name: names[part] if part >= 0 else None for name, part in zip(concepts.names, parts, strict=True)
        },
        verdict=verdicts[kinds[0]],
        map_verdicts=verdicts,
        numbers=map_numbers(predicted, kinds[0]),
    )
    localization._file = judged.file("localization")
    return localization


def _seen(judged: Judged, regions_of: Callable[[Indices], Regions]) -> tuple[str, Regions]:
    """Regions of other images, by which blind maps are made; the judged ones where no other has any."""
    if not judged.same:
        found = regions_of(spread(judged.fit_on, FIT))
        if found.seen.any():
            return judged.fit_name, found
    return "the judged images", regions_of(spread(judged.indices, FIT))


def _fixed(
    part_of: Tensor, widths: Mapping[str, float], mean_region: Tensor, names: Sequence[str], grid: tuple[int, int]
) -> dict[str, Tensor]:
    """Image-free maps (K, L); a part that no other image shows gets the object's center prior."""
    usual = widths.get(OBJECT, 0.25)
    sigma = [widths.get(names[part], usual) for part in part_of.tolist()]
    return {
        "uniform": torch.ones(len(part_of), grid[0] * grid[1], device=mean_region.device),
        "center_prior": center_prior_maps(sigma, grid).to(mean_region.device),
        "central_cell": central_cell_map(grid).to(mean_region.device).expand(len(part_of), -1),
        "mean_region": mean_region[part_of],
    }


def _judge(bench: _Bench, indices: Indices) -> tuple[dict[Target, dict[str, Columns]], Flags, Indices, str]:
    """Measures of every map of the images that have regions, what is read of them, which they are, and where Grad-CAM
    looked."""
    columns: dict[Target, dict[str, dict[str, list[npt.NDArray[Any]]]]] = {target: {} for target in bench.part_of}
    kept: list[Indices] = []
    said: list[Flags] = []
    place = ""
    card, device = bench.card, next(bench.pipeline.parameters()).device
    with PixelReader(bench.judged.source, card.image_size, card.fit, cache_mb=0) as reader:
        for start in range(0, len(indices), BATCH):
            batch = indices[start : start + BATCH]
            regions = read_regions(bench.judged.source, batch, size=card.image_size, fit=card.fit, grid=bench.grid)
            some = regions.seen.any(1)
            if not some.any():
                continue
            made = concept_maps(bench.pipeline, reader.batch(batch).to(device))
            if made.grid != bench.grid:
                raise UserError(
                    f"{bench.pipeline.encoder.name}: its tokens form a grid {made.grid}, not {bench.grid} as it says."
                )
            kept.append(batch[some])
            said.append(read_as(made.concept_logits.double().cpu().numpy()[some], bench.concepts))
            place = made.place
            for target, part_of in bench.part_of.items():
                truth = truth_of(regions, part_of.clamp(min=0))
                truth = replace(truth, seen=truth.seen & (part_of >= 0) & _asked(bench, batch, device))
                still = {name: fixed.expand(len(batch), -1, -1) for name, fixed in bench.fixed[target].items()}
                for name, maps in {**made.maps, **still, PERFECT: truth.cover}.items():
                    into = columns[target].setdefault(name, {})
                    for measured, values in measure(maps, truth).items():
                        into.setdefault(measured, []).append(values.cpu().numpy()[some])
    joined: dict[Target, dict[str, Columns]] = {
        target: {
            name: {key: np.concatenate(rows).astype(np.float64) for key, rows in found.items()}
            for name, found in maps.items()
        }
        for target, maps in columns.items()
    }
    if not kept:
        return joined, np.zeros((0, len(bench.concepts)), dtype=bool), indices[:0], place
    return joined, np.concatenate(said), np.concatenate(kept), place


def read_as(concept_logits: npt.NDArray[np.float64], concepts: ConceptSet) -> Flags:
    """What is read of images, (N, K): the likeliest value of an exclusive group, every other concept that is likely."""
    shares = concept_probabilities_of(concept_logits, concepts)
    said = shares >= 0.5
    for group in concepts.groups:
        if group.kind == "exclusive":
            own = shares[:, group.concepts]
            said[:, group.concepts] = np.arange(own.shape[1]) == own.argmax(1)[:, None]
    return said


def _asked(bench: _Bench, batch: Indices, device: torch.device) -> Tensor:
    """Which concepts' maps count in which images, (B, K)."""
    labels = torch.from_numpy(bench.judged.source.examples.concepts[batch]).to(device)
    return torch.ones_like(labels, dtype=torch.bool) if bench.where == "visible" else labels == 1


def _parts_of(target: Target, parts: Indices, names: Sequence[str]) -> dict[str, list[int]]:
    """The concepts of each part, by name; everything speaks of the object."""
    if target == "object":
        return {OBJECT: list(range(len(parts)))}
    return {names[part]: np.flatnonzero(parts == part).tolist() for part in np.unique(parts[parts >= 0])}


def _summary(
    found: Mapping[str, Columns],
    chosen: Mapping[str, Columns],
    said: Flags,
    parts: Mapping[str, list[int]],
    units: Sequence[str],
    config: MetricsConfig,
    concepts: ConceptSet,
) -> dict[str, Any]:
    """Numbers of one target: over all its concepts, by part, by concept, and maps against each other."""
    every = [position for members in parts.values() for position in members]
    thresholds = {name: _best_threshold(columns, every) for name, columns in chosen.items()}
    short = {name: _short(columns, thresholds.get(name, FIXED)) for name, columns in found.items()}
    image_free = [*IMAGE_FREE, *([PRIOR] if PRIOR in short else [])]
    pairs = [(name, other) for name in (OWN, GRADCAM) if name in short for other in image_free]
    if OWN in short:
        pairs.append((OWN, GRADCAM))
    energy = {name: columns["energy"] for name, columns in short.items()}
    seen = ~np.isnan(energy[GRADCAM])
    return {
        "concepts": len(every),
        "images": int(seen[:, every].any(1).sum()),
        "maps": {name: summarize(columns, every, units, config) for name, columns in short.items()},
        "against": {
            f"{name} - {other}": differences(short[name], short[other], every, units, config) for name, other in pairs
        },
        "predicted": _of_what_is_said(short, said, every, image_free, units, config),
        "iou_threshold": thresholds,
        "parts": {
            part: {
                "concepts": len(members),
                "images": int(seen[:, members].any(1).sum()),
                "maps": {name: summarize(columns, members, units, config) for name, columns in short.items()},
            }
            for part, members in parts.items()
            if len(parts) > 1
        },
        "by_concept": {
            concepts.names[position]: {
                name: {key: _plain_mean(columns[key][:, position]) for key in ("energy", "share", "pointing")}
                for name, columns in short.items()
                if name in (OWN, GRADCAM)
            }
            for position in every
        },
    }


def _of_what_is_said(
    found: Mapping[str, Columns],
    said: Flags,
    concepts: Sequence[int],
    image_free: Sequence[str],
    units: Sequence[str],
    config: MetricsConfig,
) -> dict[str, Any]:
    """The maps of what the model says, beside the blind map that is best by each measure: what the verdict rests on."""
    judged = [name for name in (OWN, GRADCAM) if name in found]
    own = {
        name: {measure: np.where(said, found[name][measure], np.nan) for measure in (AP, POINTING)}
        for name in (*judged, *image_free)
    }
    maps = {name: summarize(columns, concepts, units, config) for name, columns in own.items()}
    best = {
        measure: max(image_free, key=lambda name: _or_nothing(maps[name][measure]["value"]))
        for measure in (AP, POINTING)
    }
    against = {
        f"{name} - {blind}": differences(own[name], own[blind], concepts, units, config)
        for name in judged
        for blind in dict.fromkeys(best.values())
    }
    return {"maps": maps, "best_blind": best, "against": against}


def _or_nothing(value: Any) -> float:
    return -1.0 if value is None else float(value)


def _short(columns: Columns, threshold: float) -> Columns:
    """Two of the overlaps: at the fixed threshold, and at the best."""
    plain = {name: values for name, values in columns.items() if not name.startswith("iou_")}
    return {**plain, "iou": columns[f"iou_{FIXED:g}"], "iou_best": columns[f"iou_{threshold:g}"]}


def _best_threshold(columns: Columns, concepts: Sequence[int]) -> float:
    """The share of the peak above which maps overlap with their regions best, on average."""
    means = [_plain_mean(columns[f"iou_{threshold:g}"][:, list(concepts)]) for threshold in THRESHOLDS]
    known = [-1.0 if mean is None else mean for mean in means]
    return THRESHOLDS[int(np.argmax(known))] if max(known) >= 0 else FIXED


def _plain_mean(values: npt.NDArray[np.float64]) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None
