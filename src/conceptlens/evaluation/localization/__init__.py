"""Does a map point at the object or the part it should? Measures, what blind maps reach, and intervals."""

from conceptlens.evaluation.localization.baselines import blind_maps, blob_maps, fit_blob
from conceptlens.evaluation.localization.measures import MEASURES, Truth, measure, truth_of
from conceptlens.evaluation.localization.summary import differences, summarize

__all__ = [
    "MEASURES",
    "Truth",
    "blind_maps",
    "blob_maps",
    "differences",
    "fit_blob",
    "measure",
    "summarize",
    "truth_of",
]
