"""Numbers of patches as maps of the file: rounded, with their range; nearest codes with a legend."""

from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from conceptlens.explanations.codes import UNNAMED
from conceptlens.explanations.document import CodeName, EvidenceMap, IndexMap, LegendEntry, PatchMap
from conceptlens.explanations.pictures.colors import code_color
from conceptlens.explanations.reference import Background


def patch_map(values: npt.NDArray[Any], grid: tuple[int, int], slot: int | None = None) -> PatchMap:
    """Values (L,) as a map, to five digits of the largest."""
    rounded = _rounded(values, 5)
    return PatchMap(grid=grid, values=rounded.reshape(grid).tolist(), range=_range(rounded), slot=slot)


def evidence_map(values: npt.NDArray[Any], grid: tuple[int, int], unplaced: float, logit: float) -> EvidenceMap:
    """Evidence (L,) as a map, to eight digits of the largest, so that it still adds up."""
    rounded = _rounded(values, 8)
    total = float(rounded.sum())
    moved = abs(total) + abs(unplaced)
    return EvidenceMap(
        grid=grid,
        values=rounded.reshape(grid).tolist(),
        range=_range(rounded),
        total=total,
        unplaced=unplaced,
        unplaced_share=abs(unplaced) / moved if moved else 0.0,
        logit=logit,
    )


def _rounded(values: npt.NDArray[Any], digits: int) -> npt.NDArray[np.float64]:
    numbers = values.astype(np.float64)
    top = float(np.abs(numbers).max())
    return np.round(numbers, int(digits - 1 - np.floor(np.log10(top))) if top > 0 else 0)


def _range(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    return float(values.min()), float(values.max())


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
