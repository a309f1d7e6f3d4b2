"""Does a map tell its own part from the other parts, and the value that holds from those that do not?"""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.concepts import ConceptSet

Floats = npt.NDArray[np.float64]


def part_specificity(mass: Tensor, own: Tensor, others: Tensor) -> Tensor:
    """The own part's share of a map's mass on all parts, less its share of their area, (…).

    0 for a map that is even over all parts, negative for one that prefers others; NaN where no other part is seen.

    Args:
        mass: Maps (…, L) that sum to one.
        own: (…, L): how far the own part covers each cell.
        others: (…, L): the same summed over all other parts.
    """
    inside, outside = (mass * own).sum(-1), (mass * others).sum(-1)
    area, other_area = own.sum(-1), others.sum(-1)
    expected = area / (area + other_area).clamp(min=1e-12)
    on_parts = inside + outside
    share = torch.where(
        on_parts > 0, inside / on_parts.clamp(min=1e-12), expected
    )  # nothing on any part: no preference
    return torch.where((area > 0) & (other_area > 0), share - expected, torch.nan)


def value_specificity(
    precision: Floats, labels: npt.NDArray[np.int8], part_of: npt.NDArray[np.int64], concepts: ConceptSet
) -> Floats:
    """Average precision of the map of a value that holds, less the mean of those that do not, (N, K).

    Compared are values of one group that speak of the same part; NaN for a value that does not hold, and where nothing
    is to compare with.

    Args:
        precision: (N, K), NaN where no region is known.
        labels: (N, K) of 0, 1 and UNKNOWN.
        part_of: (K,).
        concepts: The vocabulary.
    """
    found = np.full(precision.shape, np.nan)
    known = ~np.isnan(precision)
    for group in concepts.groups:
        members = np.arange(group.concepts.start, group.concepts.stop)
        for position in members:
            rivals = members[part_of[members] == part_of[position]]
            false = (labels[:, rivals] == 0) & known[:, rivals]
            asked = (labels[:, position] == 1) & known[:, position] & false.any(1)
            mean = np.where(false, precision[:, rivals], 0).sum(1) / np.maximum(false.sum(1), 1)
            found[asked, position] = (precision[:, position] - mean)[asked]
    return found
