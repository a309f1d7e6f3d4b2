"""Plant a shortcut, train a recipe on it, and see whether the maps show it (see `evaluation.faithfulness.shortcut`)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from conceptlens.concepts import ConceptSet
from conceptlens.data.images.marked import Marked
from conceptlens.data.sources.memory import MEMORY
from conceptlens.data.sources.open import open_source
from conceptlens.evaluation.faithfulness.shortcut import PlantedShortcut, measure_shortcut
from conceptlens.recipes.parse import load_recipe, merge
from conceptlens.reports.page import write_report
from conceptlens.runs.opened import OpenedRun
from conceptlens.training.train import start_run


def planted_shortcut(
    recipe: str | Path | Mapping[str, Any],
    concept: str,
    *,
    out: str | Path,
    overrides: Mapping[str, Any] | None = None,
    side: float = 0.15,
    n: int = 64,
    seed: int = 0,
    quiet: bool = True,
) -> PlantedShortcut:
    """Train a recipe on its own data with a colored square wherever a concept holds, and judge the maps by it.

    Args:
        recipe: As for `conceptlens.train`.
        concept: The name of the concept that the square goes with.
        out: The run folder.
        overrides: Settings that override the recipe's.
        side: Of the square, in shorter sides of the image.
        n: Test images at most that are read with and without it.
        seed: Of the square's places.
        quiet: Show no progress.
    """
    tree = {**(overrides or {}), "out": str(out)}
    plain = load_recipe(recipe, tree, trusted=True)
    known = ConceptSet.load(plain.concepts) if plain.concepts else None
    source, concepts = open_source(plain.data, known)
    marked = Marked(source, concepts, concept, side=side, seed=seed)
    memory = load_recipe(recipe, merge(tree, {"data": {"source": MEMORY}}), trusted=True)
    folder = start_run(memory, write_report, data=marked, quiet=quiet)
    run = OpenedRun.open(folder.path, data=marked)
    return measure_shortcut(run, marked, n=n)
