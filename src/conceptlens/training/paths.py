"""Where a recipe's files are, said so that it holds from every directory: a run may be resumed from another one."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from conceptlens.concepts import library
from conceptlens.core.registry import DATA_SOURCES
from conceptlens.data.sources.open import BUILTIN
from conceptlens.data.sources.shard_files import is_pattern, is_remote
from conceptlens.recipes import Recipe
from conceptlens.recipes.paths import REGION_FILES


def _absolute(name: str, ready: Collection[str] = ()) -> str:
    """The absolute path of what exists; a ready name wins over a file called the same, as everywhere."""
    path = Path(name).expanduser()
    return str(path.absolute()) if name not in ready and path.exists() else name


def _absolute_source(name: str, ready: Collection[str]) -> str:
    """The same for data, which may be a pattern of files; an address stays as it is."""
    if is_pattern(name) and not is_remote(name) and not Path(name).exists():
        return str(Path(name).expanduser().absolute())
    return _absolute(name, ready)


def _absolute_or_none(name: str | None) -> str | None:
    return None if name is None else _absolute(name)


def _absolute_tower(name: str) -> str:
    """An `open_clip/local-dir:…` name with the absolute path of its folder; any other name as it is."""
    head, mark, folder = name.partition("local-dir:")
    return f"{head}{mark}{_absolute(folder)}" if mark else name


def with_absolute_paths(recipe: Recipe) -> Recipe:
    """The recipe as a run keeps it: data, images, concept file, encoder and token store by their absolute paths."""
    data, encoder, concepts = recipe.data, recipe.encoder, recipe.concepts
    builtin = (*BUILTIN, *DATA_SOURCES.names()) if data.kind in ("auto", "builtin") else ()
    regions: dict[str, Any] = {name: _absolute_or_none(getattr(data.regions, name)) for name in REGION_FILES}
    return replace(
        recipe,
        data=replace(
            data,
            source=_absolute_source(data.source, builtin),
            images=_absolute_or_none(data.images),
            corrections=_absolute_or_none(data.corrections),
            regions=replace(data.regions, **regions),
        ),
        concepts=None if concepts is None else _absolute(concepts, library()),
        encoder=replace(
            encoder,
            name=_absolute_tower(encoder.name),
            text=_absolute_tower(encoder.text),
            weights=_absolute_or_none(encoder.weights),
            store=encoder.store if encoder.store in (None, "run") else str(Path(encoder.store).expanduser().absolute()),
        ),
    )
