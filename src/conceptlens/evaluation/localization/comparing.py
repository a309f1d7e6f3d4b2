"""The numbers of one target: every map, maps against each other, and the maps of what the model says.

The maps of what the model says are compared with the best of the maps that know none of its concepts. Which one that is
is decided on other images than the judged ones, where there are any: a maximum over maps of the judged images would be
too high by chance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.evaluation.localization.image_maps import MODEL_FREE
from conceptlens.evaluation.localization.map_measures import IMAGE_FREE, OTHER_IMAGE, PERFECT, PRIOR
from conceptlens.evaluation.localization.overlap import FIXED, THRESHOLDS
from conceptlens.evaluation.localization.skill import skill
from conceptlens.evaluation.localization.summary import Columns, differences, estimates, mean_of, summarize
from conceptlens.evaluation.localization.verdict import AP, POINTING
from conceptlens.explanations.maps.concept_maps import KINDS, OWN
from conceptlens.recipes.schema import MetricsConfig
from conceptlens.stats.bootstrap import Statistic

Flags = npt.NDArray[np.bool_]
ENERGY = "energy"
STILL = 0.9  # rank correlation between maps of different images from which a concept's map hardly moves
SAID = (AP, POINTING, ENERGY, "part_specificity", "effective_patches", "empty", OTHER_IMAGE)
BY_CONCEPT = ("energy", "share", "pointing", AP, "effective_patches", "empty", OTHER_IMAGE)


@dataclass(frozen=True)
class Sample:
    """Measures of the maps of N images against one target, and what the model reads in them, (N, K)."""

    maps: Mapping[str, Columns]
    predicted: Flags


def summary(
    found: Sample,
    chosen: Sample,
    parts: Mapping[str, list[int]],
    units: Sequence[str],
    config: MetricsConfig,
    concepts: ConceptSet,
) -> dict[str, Any]:
    """Numbers of one target: over all its concepts, by part, by concept, and maps against each other.

    Args:
        found: The judged images.
        chosen: The images on which a threshold and the best blind map are chosen.
        parts: The concepts of each part.
        units: What is drawn together.
        config: Resamples and confidence.
        concepts: The vocabulary.
    """
    every = [position for members in parts.values() for position in members]
    thresholds = {name: _best_threshold(columns, every) for name, columns in chosen.maps.items()}
    short = {name: _short(columns, thresholds.get(name, FIXED)) for name, columns in found.maps.items()}
    blind = [*IMAGE_FREE, *MODEL_FREE, *([PRIOR] if PRIOR in short else [])]
    kinds: list[str] = [name for name in KINDS if name in short]
    pairs = [(name, other) for name in kinds for other in blind]
    if OWN in short:
        pairs += [(OWN, other) for other in kinds if other != OWN]
    seen = ~np.isnan(short[kinds[0]][ENERGY])
    return {
        "concepts": len(every),
        "images": int(seen[:, every].any(1).sum()),
        "maps": {name: summarize(columns, every, units, config) for name, columns in short.items()},
        "against": {
            f"{name} - {other}": differences(short[name], short[other], every, units, config) for name, other in pairs
        },
        "predicted": _over_predicted(
            Sample(short, found.predicted), chosen, parts, kinds, blind, units, config, concepts
        ),
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
                name: {key: _plain_mean(short[name][key][:, position]) for key in BY_CONCEPT} for name in kinds
            }
            for position in every
        },
    }


def unmoving(by_concept: Mapping[str, Any], kind: str) -> list[str]:
    """The concepts whose maps hardly move from image to image; `by_concept` is that of a target."""
    alike = {name: found[kind].get(OTHER_IMAGE) for name, found in by_concept.items() if kind in found}
    return [name for name, value in alike.items() if value is not None and value >= STILL]


def _over_predicted(
    found: Sample,
    chosen: Sample,
    parts: Mapping[str, list[int]],
    kinds: Sequence[str],
    blind: Sequence[str],
    units: Sequence[str],
    config: MetricsConfig,
    concepts: ConceptSet,
) -> dict[str, Any]:
    """The maps of what the model says, beside the best blind map by each measure: what the verdict rests on."""
    every = [position for members in parts.values() for position in members]
    ours, theirs = _only_predicted(found, [*kinds, *blind, PERFECT]), _only_predicted(chosen, blind)
    best = _best(theirs, every, blind)
    of_part = {part: _best(theirs, members, blind) for part, members in parts.items()}
    compared = [(kind, name) for kind in kinds for name in dict.fromkeys(best[measure] for measure in (AP, POINTING))]

    def skill_of(kind: str, floor: str, positions: Sequence[int]) -> Statistic:
        return skill(*(mean_of(ours[name][ENERGY], positions) for name in (kind, floor, PERFECT)))

    wanted: dict[tuple[str, str, str], Statistic] = {}  # by concept, kind and number
    told: dict[str, Any] = {}
    for part, members in parts.items():
        for position in members:
            name = concepts.names[position]
            told[name] = {
                "images": int((~np.isnan(ours[kinds[0]][AP][:, position])).sum()),
                "best_blind": of_part[part],
            }
            for kind in kinds:
                for measure in (AP, POINTING):
                    mine, other = (ours[map_][measure] for map_ in (kind, of_part[part][measure]))
                    wanted[name, kind, measure] = mean_of(mine, [position])
                    wanted[name, kind, f"{measure} - best_blind"] = mean_of(mine - other, [position])
                wanted[name, kind, "skill"] = skill_of(kind, of_part[part][ENERGY], [position])
    wanted |= {("", kind, "skill"): skill_of(kind, best[ENERGY], every) for kind in kinds}
    numbers = estimates(wanted, len(found.predicted), units, config)
    for (name, kind, key), estimate in numbers.items():
        if name:
            told[name].setdefault(kind, {})[key] = estimate
    return {
        "maps": {name: summarize(columns, every, units, config) for name, columns in ours.items()},
        "best_blind": best,
        "best_blind_of_part": of_part,
        "against": {
            f"{kind} - {name}": differences(ours[kind], ours[name], every, units, config) for kind, name in compared
        },
        "skill": {kind: numbers["", kind, "skill"] for kind in kinds},
        "by_concept": told,
    }


def _only_predicted(sample: Sample, names: Sequence[str]) -> dict[str, Columns]:
    """The measures of the maps of what is read."""
    return {
        name: {
            measure: np.where(sample.predicted, sample.maps[name][measure], np.nan)
            for measure in SAID
            if measure in sample.maps[name]
        }
        for name in names
    }


def _best(maps: Mapping[str, Columns], concepts: Sequence[int], names: Sequence[str]) -> dict[str, str]:
    """The map that is best by each measure."""

    def value(name: str, measure: str) -> float:
        mean = float(mean_of(maps[name][measure], concepts)(np.ones((1, len(maps[name][measure]))))[0])
        return -1.0 if np.isnan(mean) else mean

    return {measure: max(names, key=lambda name: value(name, measure)) for measure in (AP, POINTING, ENERGY)}


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
