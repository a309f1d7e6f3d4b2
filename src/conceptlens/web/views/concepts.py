"""Each concept over all images: its quality, its weight for the classes, where it attends, and flags."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from conceptlens.concepts import UNKNOWN
from conceptlens.core.files import read_json
from conceptlens.evaluation.interventions.order import mean_influence
from conceptlens.reports.material import value_of
from conceptlens.runs.readout import Readout
from conceptlens.runs.verdicts import unmoving_maps
from conceptlens.stats.pca import Place, places
from conceptlens.web.schemas.concepts import ConceptEntry, Concepts, Flag, ImageRef, PatchRef, Projection, Quality
from conceptlens.web.server.loaded import LoadedRun
from conceptlens.web.server.problems import Problem
from conceptlens.web.views.atlas import Atlas, atlas_of
from conceptlens.web.views.runs import measured_split

EXAMPLES = 12
RARE = 0.01  # share of images: below it a concept is never predicted, above 1 − it always
FAINT = 0.05  # of the largest influence: below it a concept is hardly used
Floats = npt.NDArray[np.float64]


def concepts_of(loaded: LoadedRun, *, look: bool = True) -> Concepts:
    """Everything that the run's files, its model and a sample of its images say of its concepts.

    Args:
        loaded: The run.
        look: Look at the sample if nobody has yet, which takes seconds.
    """
    notes: list[str] = []
    readout = _or_note(notes, lambda: loaded.readout)
    read = readout.concept_probabilities if readout else None
    complete = look or loaded.atlas is not None or not loaded.concepts.concepts
    atlas = _or_note(notes, lambda: atlas_of(loaded)) if complete and loaded.concepts.concepts else None
    if not loaded.concepts.concepts:
        notes = ["this method reads no concepts"]
    split = measured_split(loaded.entry)
    measured = value_of(_metrics(loaded), f"splits.{split}.concept")
    by_group = {each["group"]: each for each in value_of(measured, "per_group") or ()}
    by_concept = {each["concept"]: each for each in value_of(measured, "per_concept") or ()}
    chance = set(value_of(measured, "groups_at_chance.names") or ())
    influence = mean_influence(readout) if readout else None
    projection, spots = _map(loaded, readout)
    evidence = loaded.pipeline.model.has_evidence
    shared = {} if evidence else _shared_slots(loaded)
    still = set(unmoving_maps(loaded.entry.path))
    entries = []
    for k, concept in enumerate(loaded.concepts.concepts):
        group = loaded.concepts.groups[loaded.concepts.group_of[k]]
        column = None if read is None else read[:, k]
        positive, labeled = _labels(readout, k)
        said = None if readout is None else float(readout.read_labels[:, k].mean())
        flags = _flags(said, concept.group in chance, influence, k, positive, labeled, shared.get(k))
        if concept.name in still:
            flags.append(Flag(name="map does not move", why="its map is nearly the same in every image"))
        entries.append(
            ConceptEntry(
                index=k,
                name=concept.name,
                group=concept.group,
                value=concept.value,
                kind=group.kind,
                part=concept.part,
                text=concept.text,
                slot=loaded.slot(k),
                labeled=labeled,
                positive=positive,
                mean_probability=None if column is None else float(column.mean()),
                auc=_number(by_concept.get(concept.name, {}), "auc"),
                group_quality=_quality(by_group.get(concept.group)),
                weights=readout.head.weight[:, k].tolist() if readout and readout.head else None,
                influence=None if influence is None else float(influence[k]),
                by_class=None if readout is None or column is None else _by_class(readout, column),
                flags=flags,
                place=spots[k] if spots else None,
                patches=[] if concept.placeless else _patches(atlas, k if evidence else loaded.slot(k)),
                images=_surest(column, loaded),
            )
        )
    return Concepts(
        complete=complete,
        split=atlas.split if atlas else (loaded.judged_split if readout else None),
        images=len(atlas.rows) if atlas else 0,
        grid=atlas.grid if atlas else None,
        why="; ".join(notes) or None,
        map=projection,
        classes=loaded.card.classes,
        concepts=entries,
    )


def _or_note(notes: list[str], make: Any) -> Any:
    """What can be had; otherwise a note why not."""
    try:
        return make()
    except Problem as problem:
        notes.append(problem.message)
        return None


def _metrics(loaded: LoadedRun) -> Any:
    path = loaded.entry.file("metrics.json")
    return read_json(path) if path else {}


def _number(table: Mapping[str, Any], name: str) -> float | None:
    value = table.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def _quality(table: Mapping[str, Any] | None) -> Quality | None:
    if table is None:
        return None
    return Quality(**{name: _number(table, name) for name in Quality.model_fields})


def _labels(readout: Readout | None, k: int) -> tuple[float | None, int | None]:
    """The share of labeled images in which a concept holds, and how many are labeled."""
    if readout is None:
        return None, None
    known = readout.truth[:, k] != UNKNOWN
    return (float((readout.truth[known, k] == 1).mean()) if known.any() else None), int(known.sum())


def _by_class(readout: Readout, column: Floats) -> list[float | None]:
    members = readout.labels == 1 if readout.task == "multilabel" else np.eye(len(readout.classes) + 1)[readout.labels]
    chosen = np.asarray(members, dtype=bool)[:, : len(readout.classes)]
    return [float(column[rows].mean()) if rows.any() else None for rows in chosen.T]


def _map(loaded: LoadedRun, readout: Readout | None) -> tuple[Projection, list[Place]]:
    """Places by the vectors of the texts, or by the weights that the class gives them."""
    text = getattr(loaded.pipeline.model, "text", None)
    if loaded.pipeline.model.uses_text and isinstance(text, torch.Tensor) and len(text) == len(loaded.concepts) > 0:
        spots, shares = places(text.detach().double().cpu().numpy())
        return Projection(of="texts", explained=shares), spots
    if readout and readout.head:
        spots, shares = places(readout.head.weight.T)
        return Projection(of="class weights", explained=shares), spots
    return Projection(of=None, explained=[]), []


def _shared_slots(loaded: LoadedRun) -> dict[int, int]:
    """Concept → how many others read its slot."""
    if not loaded.has_slots:
        return {}
    slots = [loaded.slot(k) for k in range(len(loaded.concepts))]
    return {k: slots.count(slot) - 1 for k, slot in enumerate(slots)}


def _flags(
    said: float | None,
    chance: bool,
    influence: Floats | None,
    k: int,
    positive: float | None,
    labeled: int | None,
    shared: int | None,
) -> list[Flag]:
    flags = [Flag(name="at chance", why="its concept group is at chance")] if chance else []
    if said is not None:
        if said < RARE and (positive or 0) >= RARE:
            flags.append(
                Flag(name="never predicted", why=f"predicted for {said:.0%} of images, true of {positive:.0%}")
            )
        if said > 1 - RARE and (1 if positive is None else positive) <= 1 - RARE:
            flags.append(Flag(name="always predicted", why=f"predicted for {said:.0%} of the images"))
    if influence is not None and influence[k] < FAINT * influence.max(initial=0):
        flags.append(Flag(name="hardly used", why="the class would hardly change without it"))
    if shared:
        flags.append(
            Flag(name="shares its slot", why=f"{shared} others read the same slot, so their maps are the same")
        )
    if labeled == 0:
        flags.append(Flag(name="no labels", why="no image has a label of it, so its quality is unknown"))
    return flags


def _patches(atlas: Atlas | None, slot: int | None) -> list[PatchRef]:
    """Where a slot, or the evidence of a concept, is largest."""
    if atlas is None or atlas.peak is None or atlas.height is None or slot is None:
        return []
    best = np.argsort(-atlas.height[:, slot], kind="stable")[:EXAMPLES]
    return [
        PatchRef(
            split=atlas.split,
            row=int(atlas.rows[at]),
            cell=int(atlas.peak[at, slot]),
            value=round(float(atlas.height[at, slot]), 6),
        )
        for at in best
    ]


def _surest(column: Floats | None, loaded: LoadedRun) -> list[ImageRef]:
    if column is None:
        return []
    best = np.argsort(-column, kind="stable")[:EXAMPLES]
    split = loaded.judged_split
    return [ImageRef(split=split, row=int(row), probability=float(column[row])) for row in best]
