"""Files that a recipe names: they are looked for beside the recipe first, then in the current folder."""

import glob
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from conceptlens.core.package_files import package_yaml_names
from conceptlens.core.registry import BUILTIN_DATA, DATA_SOURCES

REGION_FILES = ("boxes", "points", "masks", "sizes")
# What a recipe reads. Where a run is written (`out`) starts from the current folder, as for any command.
FILES = (
    "concepts",
    *("data.source", "data.images", "data.corrections", "encoder.weights", "encoder.store"),
    *(f"data.regions.{name}" for name in REGION_FILES),
)


def beside_recipe(tree: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The same recipe, in which files that lie beside it are named from the current folder.

    Args:
        tree: As it is written.
        folder: The recipe's.
    """
    ready = {
        "concepts": package_yaml_names("conceptlens.concepts", "library"),
        "data.source": (*BUILTIN_DATA, *DATA_SOURCES.names()),
    }
    moved = dict(tree)
    for key in FILES:
        if key == "data.source" and isinstance(moved.get("data"), str):
            moved["data"] = _beside(moved["data"], folder, ready[key])
            continue
        *path, last = key.split(".")
        node: Any = moved
        for step in path:  # copied on the way down: the tree that came stays as it is
            inner = node.get(step)
            if not isinstance(inner, Mapping):
                break
            node[step] = node = dict(inner)
        else:
            if isinstance(node.get(last), str):
                node[last] = _beside(node[last], folder, ready.get(key, ()))
    return moved


def _beside(name: str, folder: Path, ready: Collection[str]) -> str:
    if name in ready or Path(name).expanduser().is_absolute():
        return name
    path = folder / name
    return str(path) if folder != Path() and (path.exists() or _has_matches(path)) else name


def _has_matches(path: Path) -> bool:
    """Whether a pattern of shards, as `train-{000..120}.tar`, fits some file."""
    pattern = re.sub(r"\{[^{}]*\}", "*", str(path))
    return any(mark in pattern for mark in "*?[") and any(True for _ in glob.iglob(pattern))
