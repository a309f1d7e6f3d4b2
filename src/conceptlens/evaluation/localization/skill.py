"""Energy as skill: how much of what blind maps leave to be gained a map gains.

skill = (own − blind) / (perfect − blind) of mean energies, over the images that show a concept's region, then over
concepts. 1 for the region itself, 0 for the blind map, negative for less. A map that keeps to fully covered cells can
exceed 1. Where the blind map leaves less than `ROOM`, position alone gives the object away and there is no skill to
measure.
"""

import numpy as np

from conceptlens.stats.bootstrap import Floats, Statistic

ROOM = 0.1  # of a map's mass


def skill(own: Statistic, blind: Statistic, perfect: Statistic) -> Statistic:
    """Of three mean energies, under many sets of image weights at once; NaN without room."""

    def ratio(weights: Floats) -> Floats:
        floor = blind(weights)
        room = perfect(weights) - floor
        return np.divide(own(weights) - floor, room, out=np.full_like(room, np.nan), where=room >= ROOM)

    return ratio
