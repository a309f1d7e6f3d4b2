"""A concept set with other words, other names, or fewer concepts."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError, unknown_name


@dataclass(frozen=True)
class Replacement:
    """Other words for one concept."""

    concept: int
    words: str


@dataclass(frozen=True)
class Edited:
    """A new concept set, and how the data's names map to its names."""

    concepts: ConceptSet
    renamed: dict[str, dict[str, str]] = field(default_factory=dict)  # group: {the data's word: ours}


def find(concepts: ConceptSet, name: str) -> int:
    """A concept by its name (`texture: rough`), or by its value where only one group has it."""
    if name in concepts.names:
        return concepts.names.index(name)
    same = [place for place, concept in enumerate(concepts.concepts) if concept.value == name]
    if len(same) == 1:
        return same[0]
    if len(same) > 1:
        known = ", ".join(repr(concepts.names[place]) for place in same)
        raise UserError(f"{name!r} is a value of several groups: {known}. Name the group as well.")
    values = [concept.value for concept in concepts.concepts]
    raise unknown_name("concept", name, [*concepts.names, *values] if ":" not in name else concepts.names)


def parse_replacement(concepts: ConceptSet, word: str) -> Replacement:
    """`old=new`."""
    old, equals, new = (part.strip() for part in word.partition("="))
    if not equals or not old or not new:
        raise UserError(f"--replace {word!r}: expected OLD=NEW, as 'texture: rough=irregular streaks'.")
    place = find(concepts, old)
    concept = concepts.concepts[place]
    if new in (concept.text, _words(concepts, place)):
        raise UserError(f"--replace {word!r}: {concept.name!r} has these words already, so nothing would change.")
    return Replacement(place, new)


def replace_words(concepts: ConceptSet, replacements: Sequence[Replacement], *, rename: bool = False) -> Edited:
    """Concepts with other words; their labels stay theirs.

    Args:
        concepts: The vocabulary.
        replacements: What becomes what.
        rename: The new words become the concept's name as well; in the data it keeps its old one.
    """
    raw: dict[str, Any] = deepcopy(dict(concepts.whole.source))
    renamed: dict[str, dict[str, str]] = {}
    for each in replacements:
        concept = concepts.concepts[each.concept]
        group = raw["groups"][_key(raw["groups"], concept.group)]
        values = _values(group["values"])
        if not rename:
            group["values"] = {**values, concept.value: each.words}
            continue
        if each.words in values:
            raise UserError(f"{concept.group!r} has a value {each.words!r} already. Choose other words, or --drop one.")
        group["values"] = {
            each.words if value == concept.value else value: each.words if value == concept.value else words
            for value, words in values.items()
        }
        kind = concepts.group(concept.group).kind
        if kind == "independent":
            columns = dict(group.get("columns") or {})
            group["columns"] = {**columns, each.words: columns.pop(concept.value, concept.value)}
            group["columns"].pop(concept.value, None)
        else:
            renamed.setdefault(concept.group, {})[concept.value] = each.words
        _rename_mentions(raw, concept.group, concept.value, each.words)
    made = ConceptSet._build(raw, where="the refined concept set", name=concepts.name)
    return Edited(made, renamed)


def drop(concepts: ConceptSet, places: Sequence[int]) -> Edited:
    """Fewer concepts; an exclusive group that loses a value becomes independent, as everywhere."""
    gone = set(places)
    return Edited(concepts.subset([place for place in range(len(concepts)) if place not in gone]))


def _words(concepts: ConceptSet, place: int) -> str:
    """What stands for {value} in the concept's text."""
    concept = concepts.concepts[place]
    groups = concepts.whole.source["groups"]
    return _values(groups[_key(groups, concept.group)]["values"])[concept.value]


def _key(groups: Mapping[Any, Any], name: str) -> Any:
    """The key of a group as the file has it: YAML may read a name as a number."""
    return next(key for key in groups if str(key) == name)


def _values(values: Any) -> dict[str, str]:
    """Value: words, from a list or a mapping of a concept file."""
    pairs = values.items() if isinstance(values, Mapping) else ((value, None) for value in values)
    named = ((str(value).lower() if isinstance(value, bool) else str(value), words) for value, words in pairs)
    return {value: value if words is None else str(words) for value, words in named}


def _rename_mentions(raw: dict[str, Any], group: str, old: str, new: str) -> None:
    """Where else the file speaks of a value: labels by class, finer groups, concepts left out."""
    for table in (raw.get("by_class") or {}).values():
        if group in table:
            held = table[group]
            table[group] = [new if str(each) == old else each for each in held] if isinstance(held, list) else held
            if not isinstance(held, list) and str(held) == old:
                table[group] = new
    for other in raw["groups"].values():
        under = other.get("under")
        if isinstance(under, Mapping) and str(under.get(group)) == old:
            other["under"] = {group: new}
        elif under == f"{group}: {old}":
            other["under"] = f"{group}: {new}"
    own = raw["groups"][_key(raw["groups"], group)]
    if own.get("otherwise") == old:
        own["otherwise"] = new
    if isinstance(own.get("phrase"), Mapping):  # phrases of the old words say nothing of the new ones
        own["phrase"] = {value: said for value, said in own["phrase"].items() if value not in (old, f"not {old}")}
    left_out = raw.get("left_out") or {}
    if group in left_out:
        left_out[group] = [new if str(each) == old else each for each in left_out[group]]
