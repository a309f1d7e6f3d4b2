"""What of a method lets the class into its concepts: options, and whether anything does."""

from collections.abc import Mapping
from typing import Any

from conceptlens.core.registry import METHODS

# Options that are 0 where nothing of the class loss reaches what concepts are read from
CLASS_TERMS = ("class_gradient", "auxiliary_weight", "orthogonal_classes")


def without_class(method: Mapping[str, Any]) -> dict[str, Any] | None:
    """The options of a recipe's method with nothing of the class in its concepts; None where it cannot do without."""
    if "class_gradient" not in method:
        return None
    return {**method, **{name: 0.0 for name in CLASS_TERMS if name in method}}


def never_saw_class(method: Mapping[str, Any]) -> bool:
    """Whether by a recipe's method nothing of the class reaches the concepts."""
    if not METHODS.get(str(method["name"])).concepts_see_class:
        return True
    return without_class(method) == dict(method)
