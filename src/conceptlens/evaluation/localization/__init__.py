"""Does a map point at the object or the part it should? Measures, maps that know no concepts, and intervals."""

from conceptlens.evaluation.localization.baselines import (
    center_prior_maps,
    central_cell_map,
    fit_center_prior,
    mean_cell_maps,
    mean_region_maps,
)
from conceptlens.evaluation.localization.measures import MEASURES, Truth, measure, truth_of
from conceptlens.evaluation.localization.summary import differences, summarize

__all__ = [
    "MEASURES",
    "Truth",
    "center_prior_maps",
    "central_cell_map",
    "differences",
    "fit_center_prior",
    "mean_cell_maps",
    "mean_region_maps",
    "measure",
    "summarize",
    "truth_of",
]
