"""Settings by their last name, as `epochs=10` for `training.epochs`: for keyword arguments in Python."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from conceptlens.core.errors import UserError, did_you_mean
from conceptlens.recipes.schema import DataConfig, EncoderConfig, LossConfig, MetricsConfig, Recipe, TrainingConfig

# Where a name that stands in several sections belongs: the first of these.
_SECTIONS = {
    "training": TrainingConfig,
    "training.loss": LossConfig,
    "data": DataConfig,
    "encoder": EncoderConfig,
    "metrics": MetricsConfig,
}


def settings_tree(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword settings as a recipe's tree.

    Args:
        settings: By their own name (`epochs`), with the section joined by two underscores (`encoder__train`), or whole
            sections (`training={"epochs": 3}`).

    >>> settings_tree({"epochs": 3, "encoder__train": 1, "seed": 2})
    {'training': {'epochs': 3}, 'encoder': {'train': 1}, 'seed': 2}
    """
    tree: dict[str, Any] = {}
    for name, value in settings.items():
        *path, last = _place(name).split(".")
        node = tree
        for step in path:
            node = node.setdefault(step, {})
        node[last] = value
    return tree


def _place(name: str) -> str:
    top = [field.name for field in fields(Recipe)]
    if "__" in name or name in top:
        return name.replace("__", ".")
    for section, schema in _SECTIONS.items():
        if name in {field.name for field in fields(schema)}:
            return f"{section}.{name}"
    known = top + [field.name for schema in _SECTIONS.values() for field in fields(schema)]
    raise UserError(f"{name!r} is not a setting of a recipe. {did_you_mean(name, known)}")
