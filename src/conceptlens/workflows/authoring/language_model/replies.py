"""Answers of models as typed values. Whatever they hold is data: single lines of limited length, or left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conceptlens.workflows.authoring.candidates import AxisNote
from conceptlens.workflows.authoring.filters.repair import Unreadable, objects
from conceptlens.workflows.authoring.filters.wording import clean

MOST = 100  # objects of one answer
NAME, TEXT = 60, 300  # characters kept of a name and of a text


@dataclass(frozen=True)
class Feature:
    """One line of a description of a class."""

    axis: str
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


def read_axes(answer: str) -> list[AxisNote]:
    """Axes, in order, each once."""
    found: dict[str, AxisNote] = {}
    for each in objects(answer)[:MOST]:
        name = _field(each, "axis", "name")
        if name:
            found.setdefault(name.lower(), AxisNote(name, _field(each, "part") or None, _under(each.get("under"))))
    if not found:
        raise Unreadable('no object had the key "axis"')
    return list(found.values())


def read_features(answer: str) -> list[Feature]:
    """Features of one class; a line without axis, or without value and text, is left out."""
    found: list[Feature] = []
    for each in objects(answer)[:MOST]:
        axis, value = _field(each, "axis"), _field(each, "value")
        text = _field(each, "text", "description", "concept", longest=TEXT)
        if axis and (value or text):
            found.append(Feature(axis, value or text[:NAME].strip(), text or value, _field(each, "part") or None))
    if not found:
        raise Unreadable('no object had the keys "axis", "value" and "text"')
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
    if "axis" in value:
        axis = _field(value, "axis")
        return (axis, _field(value, "value") or None) if axis else None
    if len(value) == 1:  # as concept files write it: {granularity: yes}
        name, held = next(iter(value.items()))
        return clean(name, NAME), clean(held, NAME) or None
    return None
