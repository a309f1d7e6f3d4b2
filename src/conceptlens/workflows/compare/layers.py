"""Settings laid over settings: base, recipe, its changes, data, trial. What another method or regularizer was told does
not fit the next one, so a section whose name changes starts anew."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from conceptlens.core.errors import UserError
from conceptlens.recipes.parse import SHORT, merge

Tree = dict[str, Any]
_NAMED = ("method", "regularizer")


def nested(settings: Mapping[str, Any]) -> Tree:
    """Dotted keys as a tree, words as sections: {training.epochs: 5, method: cbm} → {training: {…}, method: {…}}."""
    tree: Tree = {}
    for key, value in settings.items():
        branch = {SHORT[key]: value} if key in SHORT and isinstance(value, str) else deepcopy(value)
        for step in reversed(str(key).split(".")):
            branch = {step: branch}
        tree = merge(tree, branch)
    return tree


def lay(below: Mapping[str, Any], above: Mapping[str, Any]) -> Tree:
    """`above` over `below`, both as `nested` makes them."""
    kept = dict(below)
    for section in _NAMED:
        old, new = kept.get(section), above.get(section)
        for part in (old, new):
            if part is not None and not isinstance(part, Mapping):
                raise UserError(f"{section}: expected a name or a mapping with `name`, found {part!r}.")
        if isinstance(old, Mapping) and isinstance(new, Mapping) and "name" in new and new["name"] != old.get("name"):
            kept[section] = {}
    return merge(kept, above)
