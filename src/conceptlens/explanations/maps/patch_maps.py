"""Numbers of patches as maps of the file: rounded, with their range; nearest codes with a legend."""

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from conceptlens.explanations.codes import UNNAMED
from conceptlens.explanations.document import CodeName, IndexMap, LegendEntry, PatchMap
from conceptlens.explanations.pictures.colors import code_color
from conceptlens.explanations.reference import Background


def patch_map(values: npt.NDArray[Any], grid: tuple[int, int], slot: int | None = None) -> PatchMap:
    """Values (L,) as a map, to five digits of the largest."""
    numbers = values.astype(np.float64)
    top = float(np.abs(numbers).max())
    digits = int(4 - np.floor(np.log10(top))) if top > 0 else 0
    rounded = np.round(numbers, digits)
    return PatchMap(
        grid=grid, values=rounded.reshape(grid).tolist(), range=(float(rounded.min()), float(rounded.max())), slot=slot
    )


def index_map(codes: Tensor, grid: tuple[int, int], background: Background) -> IndexMap:
    """Nearest codes (L,) as a map with its legend."""
    numbers = codes.cpu().numpy()
    found, counts = np.unique(numbers, return_counts=True)
    pairs = sorted(zip(counts.tolist(), found.tolist(), strict=True), key=lambda pair: (-pair[0], pair[1]))
    known = {} if background.codes is None else {each.code: each for each in background.codes}
    legend = []
    for count, code in pairs:
        name = known.get(code) or CodeName(code=code, name=UNNAMED, level=None, confidence=None, chance=None, sampled=0)
        legend.append(LegendEntry(**name.model_dump(), color=code_color(code, name.name != UNNAMED), patches=count))
    sample = background.reference.images if known else 0
    return IndexMap(grid=grid, codes=numbers.reshape(grid).tolist(), legend=legend, sample=sample)
