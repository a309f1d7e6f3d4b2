"""Do the maps of a trained run point at the object, and at the part that each concept speaks of?

Every method is judged by its own map, where it has one, and by Grad-CAM on its tokens, which is the same for all, or by
occlusion; beside image-free maps (`baselines`) and maps of the image that know none of its concepts (`image_maps`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from pydantic import Field, PrivateAttr

from conceptlens.core.documents import Document, TableRow
from conceptlens.core.engines.workers import IN_PROCESS, Workers
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.data.regions.tables import OBJECT
from conceptlens.data.splits.spread import spread
from conceptlens.evaluation.localization.chunks import MapSettings, measure_all, prepare
from conceptlens.evaluation.localization.comparing import Sample, summary, unmoving
from conceptlens.evaluation.localization.image_maps import COLOR, DARKNESS, PCA
from conceptlens.evaluation.localization.map_measures import PERFECT, PRIOR, Indices, Target, Where, measure_maps
from conceptlens.evaluation.localization.summary import estimate_cells
from conceptlens.evaluation.localization.text import localization_text
from conceptlens.evaluation.localization.verdict import NOTHING, judge_map, map_numbers
from conceptlens.evaluation.verdict import Numbers, Verdict
from conceptlens.explanations.maps.concept_maps import GRADCAM, KINDS, OCCLUSION, OWN, USUAL, Kind
from conceptlens.runs.predictions import units_of

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun

CHOOSE = 256  # images at most on which a threshold of IoU and the best blind map are chosen


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
    best_blind_from: str = "the judged images"  # where the best blind map was chosen
    unmoving: dict[str, list[str]] = Field(default_factory=dict)  # concepts whose maps hardly differ between images
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


def localize_run(
    run: "OpenedRun",
    *,
    split: str | None = None,
    data: Mapping[str, Any] | None = None,
    where: str = "visible",
    n: int | None = None,
    sigma: float | None = None,
    maps: Sequence[Kind] = USUAL,
    workers: Workers = IN_PROCESS,
    note: Callable[[str], object] = lambda text: None,
) -> Localization:
    """Judge the maps of a finished run by known regions; nothing is written.

    Args:
        run: The run.
        split: `train`, `val`, `test` or `all`; by default `test` of the run's own data, `all` of other data.
        data: Keys of a recipe's `data` section: other data if they name a `source`; else `regions` of the run's own.
        where: Judge a concept's map in images in which its region is `visible`, or only where the concept is `present`.
        n: At most so many images, evenly spread over the split; 20,000 by default.
        sigma: Width of the center prior in sides of the image, instead of that of the regions of other images.
        maps: Kinds of maps: the method's `own`, `gradcam`, `occlusion`. The verdict is on the first of these that the
            method has.
        workers: Which processes measure the maps; the result is the same.
        note: Called with progress messages.
    """
    for kind in maps:
        if kind not in KINDS:
            raise unknown_name("kind of map", kind, KINDS)
    if not {GRADCAM, OCCLUSION} & set(maps) and not (
        run.pipeline.model.has_attention or run.pipeline.model.has_evidence
    ):
        raise UserError(f"maps: {run.info['method']} has no map of its own. Name gradcam, occlusion or both.")
    if where not in get_args(Where):
        raise unknown_name("choice of images", where, get_args(Where))
    if n is not None and n < 1:
        raise UserError(f"--n: expected at least 1, found {n}.")
    if sigma is not None and not 0 < sigma < 10:
        raise UserError(f"--sigma: expected a width above 0 in sides of the image, found {sigma}.")
    run.need_concepts("it has no maps of them")
    settings = MapSettings(split, dict(data or {}), where, n, sigma, tuple(maps))
    prepared = prepare(run, settings)
    bench = prepared.bench
    judged, card, concepts, parts = bench.judged, bench.card, bench.concepts, prepared.parts
    measured = measure_all(prepared, run, settings, workers, note)
    if not len(measured.images):
        raise UserError(
            f"{judged.source.name}: no image of {judged.split!r} has a known region. Choose another --split."
        )
    chosen_on = spread(judged.choose_on, min(CHOOSE, len(judged.indices)))
    cheap = tuple(kind for kind in maps if kind != OCCLUSION)  # only its threshold of IoU would be chosen
    chosen = measured if judged.same else measure_maps(replace(bench, kinds=cheap), chosen_on)
    chosen_from = f"{len(chosen.images)} images of {judged.choose_name}"
    if judged.same or not len(chosen.images):
        chosen, chosen_from = measured, "the judged images"
    units = units_of(judged.source, measured.images)
    targets = {
        target: summary(
            Sample(measured.columns[target], measured.predicted),
            Sample(chosen.columns[target], chosen.predicted),
            _parts_of(target, parts, prepared.names),
            units,
            judged.metrics,
            concepts,
        )
        for target in bench.part_of
    }
    aim: Target = "part" if "part" in targets else "object"
    predicted = targets[aim]["predicted"]
    kinds: list[str] = [kind for kind in KINDS if kind in predicted["maps"]]
    still = {kind: unmoving(targets[aim]["by_concept"], kind) for kind in kinds}
    verdicts = {kind: judge_map(predicted, kind, aim, unmoving=len(still[kind])) for kind in kinds}
    localization = Localization(
        run=run.name,
        method=run.info["method"],
        data=judged.source.name,
        data_hash=judged.source.examples.fingerprint,
        split=judged.split,
        images=len(measured.images),
        grid=list(bench.grid),
        fit=card.fit,
        where=where,
        maps=_in_words(kinds, OWN in measured.columns["object"], measured.place, prior=bench.prior is not None),
        center_prior={
            "sigma": prepared.widths,
            "fitted_on": prepared.fitted_on if sigma is None else "given",
            "images": len(prepared.fit),
        },
        iou_threshold_from=chosen_from,
        targets={str(target): numbers for target, numbers in targets.items()},
        concept_part={
            name: prepared.names[part] if part >= 0 else None for name, part in zip(concepts.names, parts, strict=True)
        },
        verdict=verdicts[kinds[0]],
        map_verdicts=verdicts,
        numbers=map_numbers(predicted, kinds[0]),
        best_blind_from=chosen_from,
        unmoving=still,
    )
    localization._file = judged.file("localization")
    return localization


def _in_words(kinds: Sequence[str], own: bool, place: str, *, prior: bool) -> dict[str, str | None]:
    """What each map is; `place` is where Grad-CAM was taken."""
    return {
        OWN: "evidence of each patch, or attention of the concept's slot" if own else None,
        **({GRADCAM: f"Grad-CAM on tokens, {place}"} if GRADCAM in kinds else {}),
        **({OCCLUSION: "the fall of a concept's score where a region is covered"} if OCCLUSION in kinds else {}),
        "uniform": "the same everywhere",
        "center_prior": "a Gaussian in the middle of the image",
        "central_cell": "the cell in the middle of the image",
        "mean_region": "the mean region of other images",
        "mean_cell": "the cell that regions of other images cover most",
        DARKNESS: "how dark a cell is, or how bright where that finds the part better in other images",
        COLOR: "how far a cell's colors are from those along the image's edge",
        PCA: "the first principal component of the encoder's tokens, without a concept head",
        **({PRIOR: "where the method expects the part before it sees the image"} if prior else {}),
        PERFECT: "the region itself, cell by cell",
    }


def _parts_of(target: Target, parts: Indices, names: Sequence[str]) -> dict[str, list[int]]:
    """The concepts of each part, by name; everything speaks of the object."""
    if target == "object":
        return {OBJECT: list(range(len(parts)))}
    return {names[part]: np.flatnonzero(parts == part).tolist() for part in np.unique(parts[parts >= 0])}
