"""Files of earlier versions, upgraded when they are read: one function for each schema version. Numbers stay.

| schema | written by | what changed after it |
| --- | --- | --- |
| 1 | 0.1 | American spelling of keys, of a recipe's sections and of parameters' names; `axis` is `group` |
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from conceptlens.core.errors import UserError

SCHEMA = 2
T = TypeVar("T")

_KEYS_1 = {
    "regulariser": "regularizer",
    "colour_map": "color_map",
    "labelled": "labeled",
    "randomised": "randomized",
    "centre": "center",
    "centre_sigma": "center_sigma",
    **{
        f"{head}{name}_centred": f"{head}{name}_centered"
        for head in ("", "rank.", "rank_")
        for name in ("effective", "published")
    },
}
_VALUES_1 = {"regulariser": "regularizer", "learnt": "learned"}  # of `training.stages[].train` and `dictionary`
# Values of training.loss.concept, method.slots, regularizer.per and method.depth, by the last part of the key
_OPTIONS_1 = {
    ("concept", "axis"): "group",
    ("slots", "axis"): "group",
    ("per", "axis"): "group",
    ("depth", "axes"): "groups",
}
_PARAMETERS_1 = (
    ("regulariser.", "regularizer."),
    (".quantiser.", ".quantizer."),
    ("grounding.centre", "grounding.center"),
    ("method.axis_text", "method.group_text"),
    ("method.axis", "method.group_of"),
)


# For messages about recipes that are written by hand: old key → new key, and (key, old value) → new value.
RENAMED_KEYS = _KEYS_1
RENAMED_VALUES = _OPTIONS_1


def _from_1(tree: Any) -> Any:
    """Version 0.1's keys as they are called now."""
    if isinstance(tree, Mapping):
        renamed = {_KEYS_1.get(key, key): _option_1(key, _from_1(value)) for key, value in tree.items()}
        legend, twins = "code" in renamed, renamed.get("name") == "barlow-twins"
        if "colour" in renamed and (legend or twins):  # no concept of that name
            renamed["color"] = renamed.pop("colour")
        return renamed
    if isinstance(tree, list):
        return [_from_1(entry) for entry in tree]
    return _VALUES_1.get(tree, tree) if isinstance(tree, str) else tree


def _option_1(key: Any, value: Any) -> Any:
    """The value of a recipe's key, which may be dotted as in a comparison."""
    return (
        _OPTIONS_1.get((key.rpartition(".")[2], value), value)
        if isinstance(key, str) and isinstance(value, str)
        else value
    )


UPGRADES: dict[int, Callable[[Any], Any]] = {1: _from_1}


def upgrade(tree: Any, *, where: str, schema: int | None = None) -> Any:
    """A document as this version reads it.

    Args:
        tree: What was read.
        where: For messages.
        schema: Its version; the document's own entry `schema` by default, without one it is taken as it is.

    Raises:
        UserError: A newer version wrote it.
    """
    version = schema if schema is not None else tree.get("schema", SCHEMA) if isinstance(tree, Mapping) else SCHEMA
    if not isinstance(version, int) or version not in (*UPGRADES, SCHEMA):
        raise UserError(
            f"{where}: written with schema {version!r}; this version reads schemas up to {SCHEMA}. Update conceptlens."
        )
    while version < SCHEMA:
        tree = UPGRADES[version](tree)
        version += 1
    if isinstance(tree, dict) and "schema" in tree:
        tree["schema"] = SCHEMA
    return tree


def upgrade_parameters(state: Mapping[str, T]) -> dict[str, T]:
    """Weights by the names that parameters have now."""
    renamed: dict[str, T] = {}
    for name, value in state.items():
        for old, new in _PARAMETERS_1:
            name = new + name.removeprefix(old) if name.startswith(old) else name.replace(old, new)
        renamed[name] = value
    return renamed
