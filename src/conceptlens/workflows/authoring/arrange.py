"""Coarse to fine: which group stands under which, and in which order groups are written.

After Panousis et al. (2024), as the IVQ-CBM paper uses it: coarse concepts about the whole, finer ones that only mean
something where a coarse one holds. A model says what stands under what; where it does not, the table by class may: an
group that only classes of one coarser value speak of stands under that value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conceptlens.workflows.authoring.candidates import Candidate, GroupNote
from conceptlens.workflows.authoring.filters.wording import key

Under = tuple[str, str | None]


@dataclass(frozen=True)
class DraftedGroup:
    """A group with its values, and the coarser one it stands under."""

    name: str
    part: str | None
    values: tuple[Candidate, ...]
    under: Under | None

    @property
    def classes(self) -> frozenset[str]:
        """Classes of which a value is said."""
        return frozenset(name for each in self.values for name in each.classes)

    @property
    def exclusive(self) -> bool:
        """Whether each class that speaks of it shows one value, and there is a choice."""
        said = [name for each in self.values for name in each.classes]
        return len(self.values) > 1 and len(said) == len(set(said))


def arrange(candidates: Sequence[Candidate], notes: Mapping[str, GroupNote]) -> list[DraftedGroup]:
    """Groups with an order: each behind the one it stands under, then those that more classes speak of.

    Args:
        candidates: What is left.
        notes: What was said of groups, by folded name.
    """
    grouped: dict[str, list[Candidate]] = {}
    for each in candidates:
        grouped.setdefault(each.group, []).append(each)
    flat = [
        DraftedGroup(name, next((each.part for each in values if each.part), None), tuple(values), None)
        for name, values in grouped.items()
    ]
    by_key = {key(group.name): group for group in flat}
    chosen: dict[str, Under] = {}
    for group in flat:
        note = notes.get(key(group.name))
        under = _said(note.under, by_key) if note and note.under else _seen(group, flat)
        if under and not _leads_back(group.name, under[0], chosen):
            chosen[group.name] = under
    placed = [DraftedGroup(group.name, group.part, group.values, chosen.get(group.name)) for group in flat]
    return sorted(placed, key=lambda group: (_depth(group.name, chosen), -len(group.classes)))


def _said(under: Under, by_key: Mapping[str, DraftedGroup]) -> Under | None:
    """What a model said, if the group is there; a value that is gone is left out."""
    above = by_key.get(key(under[0]))
    if above is None:
        return None
    held = next((each.value for each in above.values if under[1] and key(each.value) == key(under[1])), None)
    return above.name, held


def _seen(group: DraftedGroup, others: Sequence[DraftedGroup]) -> Under | None:
    """The value, about the same part, that exactly the classes show which speak of this group.

    Groups with one value or of one class are left alone: that they coincide with another says little.
    """
    if len(group.values) < 2 or len(group.classes) < 2 or group.part is None:
        return None
    for other in others:
        if other is not group and other.part == group.part and other.exclusive and other.classes > group.classes:
            for each in other.values:
                if each.classes == group.classes:
                    return other.name, each.value
    return None


def _leads_back(name: str, above: str, chosen: Mapping[str, Under]) -> bool:
    seen = {name}
    while above not in seen:
        if above not in chosen:
            return False
        seen.add(above)
        above = chosen[above][0]
    return True


def _depth(name: str, chosen: Mapping[str, Under]) -> int:
    depth = 0
    while name in chosen:
        name, depth = chosen[name][0], depth + 1
    return depth
