"""Maps that show the wrong place: the control, and the catch trials.

`moved` keeps a map's look (its values, its smoothness) and mirrors and shifts it to where it is least like itself: a
rater can tell it by looking at the image only. `patches` deals the values out at random; it looks like noise beside a
smooth map. `other` shows the map of another image; where all objects are centered, that is a good map.
"""

from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Control = Literal["moved", "patches", "other"]
CONTROLS: tuple[Control, ...] = get_args(Control)
UNLIKE = 0.2  # of the possible moves, the least like the map: one of them is drawn


def moved(grid: Floats, generator: np.random.Generator) -> Floats:
    """A map (h, w) mirrored and shifted around the edges, drawn among the fifth of moves that is least like it."""
    flipped = [grid, grid[::-1], grid[:, ::-1], grid[::-1, ::-1]]
    # The overlap of the map with each of its shifts at once, by the correlation theorem.
    spectrum = np.fft.fft2(grid)
    overlap = np.stack([np.fft.ifft2(np.conj(np.fft.fft2(each)) * spectrum).real for each in flipped])
    unlike = np.argsort(overlap, axis=None, kind="stable")[: max(1, int(UNLIKE * overlap.size))]
    which, down, right = np.unravel_index(int(generator.choice(unlike)), overlap.shape)
    return np.roll(flipped[int(which)], (int(down), int(right)), (0, 1)).copy()


def patches(grid: Floats, generator: np.random.Generator) -> Floats:
    """The same values at random places."""
    return generator.permutation(grid.reshape(-1)).reshape(grid.shape)


def shuffle(control: Control, grids: list[Floats], at: int, generator: np.random.Generator) -> Floats:
    """The map that the trial at a position shows instead of its own."""
    if control == "moved":
        return moved(grids[at], generator)
    if control == "patches":
        return patches(grids[at], generator)
    others = [n for n in range(len(grids)) if n != at]
    return grids[int(generator.choice(others))].copy() if others else moved(grids[at], generator)
