"""All measures of a batch of maps at once: one number for each image and concept, NaN where no region is known."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conceptlens.data.regions.regions import TENTH, Regions
from conceptlens.evaluation.localization.concentration import effective_patches
from conceptlens.evaluation.localization.distance import centroid_distance
from conceptlens.evaluation.localization.energy import as_mass, energy, is_empty
from conceptlens.evaluation.localization.overlap import THRESHOLDS, overlap
from conceptlens.evaluation.localization.pointing import around, peak, pointing
from conceptlens.evaluation.localization.precision import average_precision
from conceptlens.evaluation.localization.specificity import part_specificity

MEASURES = {
    "energy": "share of the map's mass that lies in the region",
    "share": "share of the image that the region covers, which is what a uniform map puts there",
    "pointing": "the map's peak lies in the region",
    "pointing_cells": "the peak is in the region's cells or next to them (3 × 3 cells around a point)",
    "pointing_patch": "the peak's center is within one patch of the region or point",
    "pointing_tenth": "the peak's center is within a tenth of the object's longer side of the region or point",
    "average_precision": "of the map's cells, by how far the region covers them",
    "distance_patches": "from the map's centroid to the region's center or point, in patches",
    "distance_object": "the same in longer sides of the object's box",
    "part_specificity": "the own part's share of the mass on all parts, less its share of their area",
    "effective_patches": "patches over which the map is spread: exp of its entropy",
    "empty": "the map is zero everywhere; it is then judged as a uniform one",
    **{f"iou_{threshold:g}": f"overlap of region and map above {threshold:g} of its peak" for threshold in THRESHOLDS},
}


@dataclass(frozen=True)
class Truth:
    """What the maps of K concepts in B images are held against; cells as in the maps."""

    grid: tuple[int, int]
    seen: Tensor  # (B, K)
    cover: Tensor  # (B, K, L)
    on: Tensor  # (B, K, L)
    gap: Tensor  # (B, K, L)
    gap_object: Tensor  # (B, K, L)
    center: Tensor  # (B, K, 2)
    pixels: Tensor  # (B, 1, 2)
    others: Tensor | None = None  # (B, K, L): how far all other parts together cover each cell; None: there are none


def truth_of(regions: Regions, part_of: Tensor) -> Truth:
    """The regions of the concepts: concept k speaks of part `part_of[k]`, (K,), which says where the maps are too."""
    device = part_of.device
    cover = torch.as_tensor(regions.cover).to(device)
    parts = cover[:, 1:].sum(1, keepdim=True)  # the first is the object, which is no part

    def rows(values: object) -> Tensor:
        return torch.as_tensor(values).to(device)[:, part_of]

    return Truth(
        regions.grid,
        rows(regions.seen),
        cover[:, part_of],
        rows(regions.on),
        rows(regions.gap),
        rows(regions.gap_object),
        rows(regions.center),
        torch.as_tensor(regions.pixels).to(device)[:, None],
        torch.where(part_of[:, None] > 0, parts - cover[:, part_of], 0.0) if cover.shape[1] > 1 else None,
    )


def measure(maps: Tensor, truth: Truth) -> dict[str, Tensor]:
    """Measures (B, K) of maps (B, K, L) of numbers ≥ 0, by name (see `MEASURES`)."""
    mass = as_mass(maps)
    top = peak(mass)
    near = around(truth.on, truth.grid)
    patches, objects = centroid_distance(mass, truth.center, truth.pixels, truth.grid)
    found = {
        "energy": energy(mass, truth.cover),
        "share": truth.cover.mean(-1),
        "pointing": pointing(top, truth.cover),
        "pointing_cells": pointing(top, near),
        "pointing_patch": pointing(top, truth.gap <= 1),
        "pointing_tenth": torch.where(
            truth.gap_object.isnan().any(-1), torch.nan, pointing(top, truth.gap_object <= TENTH)
        ),
        "average_precision": average_precision(mass, truth.cover),
        "distance_patches": patches,
        "distance_object": objects,
        "part_specificity": torch.full_like(top[..., 0], torch.nan)
        if truth.others is None
        else part_specificity(mass, truth.cover, truth.others),
        "effective_patches": effective_patches(mass).expand(mass.shape[:2]),
        "empty": is_empty(maps).to(mass.dtype).expand(mass.shape[:2]),
    }
    found |= {
        f"iou_{threshold:g}": values for threshold, values in zip(THRESHOLDS, overlap(mass, truth.cover), strict=True)
    }
    return {name: torch.where(truth.seen, values, torch.nan) for name, values in found.items()}
