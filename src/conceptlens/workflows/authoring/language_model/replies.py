"""Answers of models as typed values. Whatever they hold is data: single lines of limited length, or left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conceptlens.workflows.authoring.candidates import GroupNote
from conceptlens.workflows.authoring.filters.repair import Unreadable, objects
from conceptlens.workflows.authoring.filters.wording import clean

MOST = 100  # objects of one answer
GROUP = ("group", "axis")  # the key of a concept group, and as version 0.1 asked for it
NAME, TEXT = 60, 300  # characters kept of a name and of a text


@dataclass(frozen=True)
class Feature:
    """One line of a description of a class."""

    group: str
    value: str
    text: str
    part: str | None


@dataclass(frozen=True)
class Opinion:
    """A second model's view of one feature of one class."""

    number: int
    visible: bool
    holds: bool
    names_class: bool
    why: str


def read_groups(answer: str) -> list[GroupNote]:
    """Groups, in order, each once."""
    found: dict[str, GroupNote] = {}
    for each in objects(answer)[:MOST]:
        name = _field(each, *GROUP, "name")
        if name:
            found.setdefault(name.lower(), GroupNote(name, _field(each, "part") or None, _under(each.get("under"))))
    if not found:
        raise Unreadable('no object had the key "group"')
    return list(found.values())


def read_features(answer: str) -> list[Feature]:
    """Features of one class; a line without group, or without value and text, is left out."""
    found: list[Feature] = []
    for each in objects(answer)[:MOST]:
        group, value = _field(each, *GROUP), _field(each, "value")
        text = _field(each, "text", "description", "concept", longest=TEXT)
        if group and (value or text):
            found.append(Feature(group, value or text[:NAME].strip(), text or value, _field(each, "part") or None))
    if not found:
        raise Unreadable('no object had the keys "group", "value" and "text"')
    return found


def read_opinions(answer: str, count: int) -> list[Opinion]:
    """Opinions on features numbered from 1 to `count`; others are left out, of several on one the first counts."""
    found: dict[int, Opinion] = {}
    for place, each in enumerate(objects(answer)[:MOST], 1):
        number = each.get("number", each.get("id", place))
        if isinstance(number, str) and number.strip().rstrip(".").isdecimal():
            number = int(number.strip().rstrip("."))
        if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= count:
            found.setdefault(
                number,
                Opinion(
                    number,
                    _truth(each.get("visible"), True),
                    _truth(each.get("holds", each.get("true")), True),
                    _truth(each.get("names_class"), False),
                    _field(each, "why", "reason", longest=TEXT),
                ),
            )
    missing = [number for number in range(1, count + 1) if number not in found]
    if missing:
        raise Unreadable(f"there is no object for the number{'s' * (len(missing) > 1)} {_numbers(missing)}")
    return [found[number] for number in sorted(found)]


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values[:10])) + (" …" if len(values) > 10 else "")


def _field(each: Mapping[str, Any], *names: str, longest: int = NAME) -> str:
    for name in names:
        value = each.get(name)
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return clean(value, longest)
    return ""


def _truth(value: Any, unsaid: bool) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    return word in ("true", "yes", "1") if word in ("true", "yes", "1", "false", "no", "0") else unsaid


def _under(value: Any) -> tuple[str, str | None] | None:
    if isinstance(value, str) and value.strip():
        return clean(value, NAME), None
    if not isinstance(value, Mapping):
        return None
    if any(name in value for name in GROUP):
        group = _field(value, *GROUP)
        return (group, _field(value, "value") or None) if group else None
    if len(value) == 1:  # as concept files write it: {granularity: yes}
        name, held = next(iter(value.items()))
        return clean(name, NAME), clean(held, NAME) or None
    return None
