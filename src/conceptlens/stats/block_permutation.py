"""Permutation of outcomes among images; images of one patient are exchanged together.

Under the hypothesis that a group makes no difference, the images of one patient could as well have had the outcomes of
another patient's images. Only units of the same size (and, if asked for, with the same classes) are exchanged, so the
test is exact for units of any size, and not confounded by groups with other classes.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


class BlockPermutation:
    """Random exchanges of the outcomes of n images.

    Args:
        units: (n,) what belongs together.
        strata: (n,) what an image must have in common with the one whose outcome it gets; nothing by default.
    """

    def __init__(self, units: Sequence[str], strata: Indices | None = None) -> None:
        kinds = np.zeros(len(units), dtype=np.int64) if strata is None else strata
        members: dict[str, list[int]] = defaultdict(list)
        for place in np.argsort(kinds, kind="stable").tolist():  # in one order of strata in every unit
            members[units[place]].append(place)
        alike: dict[tuple[int, ...], list[list[int]]] = defaultdict(list)
        for places in members.values():
            alike[tuple(kinds[places].tolist())].append(places)
        self._blocks = [np.array(blocks, dtype=np.int64) for blocks in alike.values()]  # (units, size) each
        self._n = len(units)

    def draw(self, generator: np.random.Generator) -> Indices:
        """(n,): the image whose outcome each gets."""
        source = np.arange(self._n)
        for block in self._blocks:
            if len(block) > 1:
                source[block.ravel()] = block[generator.permutation(len(block))].ravel()
        return source

    @property
    def exchangeable(self) -> int:
        """Images whose unit can be exchanged with another."""
        return sum(block.size for block in self._blocks if len(block) > 1)
