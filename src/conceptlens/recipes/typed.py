"""Values of a recipe with their types. jsonargparse checks a value once; further recipes with the same value reuse it.

A comparison has a thousand recipes that differ in a few keys, and checking a whole recipe takes some 30 ms.
"""

from collections.abc import Iterator, Mapping, Set
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from jsonargparse import ArgumentParser, Namespace

Tree = Mapping[str, Any]
Leaf = tuple[str, str, str]  # dotted key, type and text of a value


@dataclass
class _Checked:
    """What was checked with one parser."""

    base: Namespace | None = None  # defaults with their types
    values: dict[Leaf, Any] = field(default_factory=dict)


@cache
def _checked(parser: ArgumentParser) -> _Checked:
    return _Checked()


@cache
def default_values(parser: ArgumentParser) -> Namespace:
    """To be copied. jsonargparse would work them out three times for each recipe, half of the time of reading it."""
    return parser.get_defaults(skip_validation=True)


def typed_values(parser: ArgumentParser, tree: Tree, free: Set[str]) -> Namespace:
    """The values of a recipe, each of its type.

    Args:
        parser: Knows all keys.
        tree: The recipe, over its method's preset.
        free: Dotted keys of mappings that are values themselves.
    """
    known = _checked(parser)
    leaves = [((key, type(value).__name__, repr(value)), value) for key, value in _leaves(tree, free)]
    base, has_source = known.base, any(key == "data.source" for (key, *_), _ in leaves)
    if (
        base is None
        or not has_source
        or any(leaf not in known.values and not _is_plain(base, leaf[0], value) for leaf, value in leaves)
    ):
        values = _parse(parser, deepcopy(tree))  # says what is wrong, and that a source is missing
        if base is None:
            known.base = _parse(parser, {"data": {"source": ""}})
        known.values |= {leaf: deepcopy(_get(values, leaf[0])) for leaf, _ in leaves}
        return values
    values = deepcopy(base)
    for leaf, value in leaves:
        _set(values, leaf[0], deepcopy(known.values.get(leaf, value)))
    return values


def _is_plain(base: Namespace, key: str, value: object) -> bool:
    """A number in the place of a number, which needs no check: the default is of the same type, and no other may be."""
    *path, last = key.split(".")
    section = _get(base, ".".join(path)) if path else base
    annotations = getattr(type(section), "__annotations__", {})
    return isinstance(value, (int, float)) and annotations.get(last) is type(value)


def _leaves(tree: Tree, free: Set[str], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        here = f"{path}{key}"
        if isinstance(value, Mapping) and here not in free:
            yield from _leaves(value, free, f"{here}.")
        else:
            yield here, value


def _get(values: Any, key: str) -> Any:
    for name in key.split("."):
        values = values[name] if isinstance(values, Mapping | Namespace) else getattr(values, name)
    return values


def _set(values: Any, key: str, value: Any) -> None:
    path, _, name = key.rpartition(".")
    section = _get(values, path) if path else values
    if isinstance(section, Mapping | Namespace):
        section[name] = value  # type: ignore[index]
    else:
        setattr(section, name, value)


def _parse(parser: ArgumentParser, tree: Tree) -> Namespace:
    """Check a whole recipe.

    In a thread of its own: jsonargparse tries the types of `auto | int` in turn, and the errors of those that do not
    fit hold on to all frames above, until garbage is collected. A model in one of them would outlive its last user.
    """

    def parse() -> Namespace:
        parsed = parser.parse_object(tree, namespace=default_values(parser).clone(), defaults=False)
        values: Namespace = parser.instantiate(parsed)
        return values

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(parse).result()
