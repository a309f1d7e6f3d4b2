"""Which images a study shows, and which concept of each: balanced over classes and over concepts, drawn by a seed."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def draw_images(classes: npt.NDArray[np.int64], n: int, generator: np.random.Generator) -> Indices:
    """n positions, as evenly over classes as they last, in random order."""
    pools = [list(generator.permutation(np.flatnonzero(classes == each))) for each in np.unique(classes)]
    chosen: list[int] = []
    while len(chosen) < n and any(pools):
        for place in generator.permutation(len(pools)):
            if pools[place] and len(chosen) < n:
                chosen.append(int(pools[place].pop()))
    return np.array(chosen, dtype=np.int64)[generator.permutation(len(chosen))]


def draw_concepts(allowed: Sequence[Sequence[int]], generator: np.random.Generator) -> list[int | None]:
    """A concept for each image out of those allowed for it, such that all are used about equally often."""
    used: Counter[int] = Counter()
    chosen: list[int | None] = [None] * len(allowed)
    # Images with little choice go first, so that the others can make up for them.
    for at in sorted(range(len(allowed)), key=lambda at: (len(allowed[at]), at)):
        if not allowed[at]:
            continue
        least = min(used[k] for k in allowed[at])
        ties = [k for k in allowed[at] if used[k] == least]
        chosen[at] = ties[int(generator.integers(len(ties)))]
        used[chosen[at] or 0] += 1
    return chosen
