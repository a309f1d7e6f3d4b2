"""Wrong answers that could be right: what else the image shows, at another place.

A rater sees the image. If the wrong answers were not true of it, the right one could be picked without looking at the
map; so the first choice are concepts that the image shows too, about another part, and among those the closest in
meaning.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
NEAREST = 2  # times the wanted number: so many of the closest are drawn among


def distractors(
    concepts: ConceptSet,
    truth: int,
    present: Bools,
    vectors: Floats,
    count: int,
    generator: np.random.Generator,
    without: int | None = None,
    offered: Sequence[int] | None = None,
) -> list[int]:
    """Concepts to choose from besides the true one, of a group each.

    Args:
        concepts: The vocabulary.
        truth: The concept whose map is shown.
        present: (K,), what the image shows.
        vectors: (K, D) of the texts, unit length.
        count: How many; there may be fewer groups.
        generator: Draws among the closest.
        without: A concept whose group is not offered: the other question names it.
        offered: Concepts that may be offered; all by default. What is nowhere in an image is no plausible answer.
    """
    chosen: list[int] = []
    taken = {int(concepts.group_of[k]) for k in (truth, without) if k is not None}
    for k in _ranked(concepts, truth, present, vectors @ vectors[truth], count, generator):
        if len(chosen) == count:
            break
        if int(concepts.group_of[k]) not in taken and (offered is None or k in offered):
            chosen.append(k)
            taken.add(int(concepts.group_of[k]))
    if not chosen:  # one group is all there is
        own = concepts.groups[int(concepts.group_of[truth])].concepts
        rest = [k for k in range(own.start, own.stop) if k != truth]
        chosen = [rest[int(n)] for n in generator.permutation(len(rest))[:count]]
    return chosen


def _ranked(
    concepts: ConceptSet, truth: int, present: Bools, close: Floats, count: int, generator: np.random.Generator
) -> Iterator[int]:
    """The most plausible first; the closest of each kind in random order."""
    own = concepts.concepts[truth].part
    tiers: dict[tuple[bool, bool], list[int]] = {}
    for k in range(len(concepts)):
        if concepts.group_of[k] != concepts.group_of[truth]:
            part = concepts.concepts[k].part
            same_part = part is not None and part == own  # its map would be at the same place
            tiers.setdefault((same_part, not present[k]), []).append(k)
    for tier in sorted(tiers):
        ranked = sorted(tiers[tier], key=lambda k: -float(close[k]))
        head, tail = ranked[: NEAREST * count], ranked[NEAREST * count :]
        yield from (head[int(n)] for n in generator.permutation(len(head)))
        yield from tail
