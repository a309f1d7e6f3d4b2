"""Dividing images so that every side has its share of every class, and no group lies on two sides.

Whole units (groups, or single images) are assigned one by one, those of the rarest label first, each to the side that
is shortest of what the unit holds, as in K. Sechidis, G. Tsoumakas, I. Vlahavas: On the stratification of multi-label
data, ECML PKDD 2011.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from conceptlens.core.errors import UserError
from conceptlens.data.dataset import Examples


def divide(
    pool: Sequence[int], shares: Mapping[str, float], examples: Examples, strata: Sequence[tuple[int, ...]], seed: int
) -> dict[str, list[int]]:
    """Divide images by whole groups, so that each side has its share of each stratum.

    Args:
        pool: Positions of the images to divide.
        shares: Of each side; they sum to 1.
        examples: For ids and groups. An image whose group is blank stands alone.
        strata: For every image of `examples`, what it counts towards.
        seed: Of the shuffling.
    """
    units: dict[tuple[bool, str], list[int]] = {}
    for index in pool:
        group = examples.group[index] if examples.group else ""
        units.setdefault((True, group) if group else (False, examples.ids[index]), []).append(index)
    if len(units) < len(shares):
        noun = "groups" if examples.group else "images"
        raise UserError(f"{len(units)} {noun} cannot be divided into {', '.join(shares)}; more are needed.")
    # Sorted by name, then shuffled: the order in which the source lists its images plays no part.
    members = [units[key] for key in sorted(units)]
    counts = [_count(unit, strata) for unit in members]
    total = sum((Counter(count) for count in counts), Counter[int]())
    smallest = min(shares.values())
    shuffled = np.random.default_rng(seed).permutation(len(members)).tolist()

    def urgency(unit: int) -> tuple[int, int]:
        """Units larger than the smallest side first, the largest of them ahead; then the rarest stratum."""
        oversize = max((n for stratum, n in counts[unit].items() if n > max(1, smallest * total[stratum])), default=0)
        return -oversize, min(total[stratum] for stratum in counts[unit])

    need = {side: {stratum: share * n for stratum, n in total.items()} for side, share in shares.items()}
    drawn: dict[str, list[int]] = {side: [] for side in shares}
    for unit in sorted(shuffled, key=urgency):
        side = _shortest_side(counts[unit], need, shares, total)
        drawn[side] += members[unit]
        for stratum, n in counts[unit].items():
            need[side][stratum] -= n
    empty = [side for side, indices in drawn.items() if not indices]
    if empty:
        raise UserError(
            f"Too few images or groups: none is left for {empty[0]}. Add some, or give a larger data.split.{empty[0]}."
        )
    return drawn


def _count(unit: Sequence[int], strata: Sequence[tuple[int, ...]]) -> dict[int, int]:
    """Images of each stratum in a unit; in a fixed order, so that sums over it come out the same to the last bit."""
    return dict(sorted(Counter(stratum for index in unit for stratum in strata[index]).items()))


def _shortest_side(
    unit: Mapping[int, int],
    need: Mapping[str, Mapping[int, float]],
    shares: Mapping[str, float],
    total: Mapping[int, int],
) -> str:
    """The side that lacks most of what the unit has, relative to its share, among those that have room for it."""

    def lack(side: str) -> tuple[float, float]:
        lacking = sum(n / total[stratum] * need[side][stratum] / total[stratum] for stratum, n in unit.items())
        return lacking / shares[side], shares[side]

    def gap(side: str) -> float:
        return sum(n / total[stratum] * (need[side][stratum] - n) for stratum, n in unit.items())

    roomy = [side for side in shares if all(need[side][stratum] > n - 1 + 1e-9 for stratum, n in unit.items())]
    return max(roomy, key=lack) if roomy else max(shares, key=gap)


def thin_out(
    indices: Sequence[int], limit: int, ids: Sequence[str], strata: Sequence[tuple[int, ...]], seed: int
) -> list[int]:
    """At most `limit` of the images: one of each stratum first, then in proportion."""
    if len(indices) <= limit:
        return list(indices)
    ordered = sorted(indices, key=lambda index: ids[index])
    shuffled = [ordered[position] for position in np.random.default_rng(seed).permutation(len(ordered)).tolist()]
    total = Counter(strata[index][0] for index in indices)
    seen: Counter[int] = Counter()
    place: dict[int, float] = {}
    for index in shuffled:
        stratum = strata[index][0]
        place[index] = seen[stratum] / total[stratum]
        seen[stratum] += 1
    return sorted(shuffled, key=place.__getitem__)[:limit]
