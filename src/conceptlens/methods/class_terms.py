"""What of a method lets the class into its concepts: options, and whether anything does."""

from collections.abc import Mapping
from typing import Any

from conceptlens.core.registry import METHODS
from conceptlens.recipes import Recipe

# Options that are 0 where nothing of the class loss reaches what concepts are read from
CLASS_TERMS = ("class_gradient", "auxiliary_weight", "orthogonal_classes")


def without_class(method: Mapping[str, Any]) -> dict[str, Any] | None:
    """The options of a recipe's method with nothing of the class in its concepts; None where it cannot do without."""
    if "class_gradient" not in method:
        return None
    return {**method, **{name: 0.0 for name in CLASS_TERMS if name in method}}


def never_saw_class(recipe: Recipe) -> bool:
    """Whether by a recipe nothing of the class reaches the concepts."""
    method = recipe.method
    if not METHODS.get(str(method["name"])).concepts_see_class:
        return True
    if method.get("residual") and recipe.encoder.train != "none":
        return False  # the class loss teaches the encoder through the residual
    return without_class(method) == dict(method)
