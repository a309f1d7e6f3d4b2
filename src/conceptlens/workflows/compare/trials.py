"""Tuning that is the same for everyone: equally many trials a method, chosen on validation, the test left alone."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.core.errors import UserError
from conceptlens.core.files import fingerprint, read_json
from conceptlens.evaluation.summary import standing
from conceptlens.workflows.compare.file import ComparisonFile

Settings = dict[str, Any]  # dotted key → value


def combinations(grid: Mapping[str, Sequence[Any]], number: int | None) -> list[Settings]:
    """The settings of a grid, in order; `number` of them, drawn by the grid itself, where it holds more."""
    whole = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    if number is None or number >= len(whole):
        return whole
    seed = int(fingerprint(repr(sorted((key, list(values)) for key, values in grid.items()))), 16)
    return [whole[place] for place in sorted(np.random.default_rng(seed).permutation(len(whole))[:number].tolist())]


def trials_of(comparison: ComparisonFile, where: str) -> dict[str, list[Settings]]:
    """For each entry its trials; empty lists where nothing is tuned.

    Raises:
        UserError: Some entries are tuned and others not, or not equally often.
    """
    shared = comparison.trials
    grids = {
        name: entry.trials if entry.trials is not None else (shared.grid if shared else {})
        for name, entry in comparison.recipes.items()
    }
    for name, grid in grids.items():
        for key, values in grid.items():
            if not values:
                raise UserError(f"{where}: trials of {name!r}: {key} has no values to try.")
    made = {name: combinations(grid, shared.number if shared else None) if grid else [] for name, grid in grids.items()}
    counts = {name: len(trials) for name, trials in made.items()}
    wanted = shared.number if shared and shared.number else max(counts.values())
    unequal = [name for name, count in counts.items() if count != wanted]
    if wanted and unequal and any(counts.values()):
        told = ", ".join(f"{name}: {count}" for name, count in counts.items())
        raise UserError(
            f"{where}: every method gets equally many trials, but they are {told}. Give {unequal[0]!r} a grid of "
            f"{wanted}, or set `trials: {{number: {min(count for count in counts.values() if count)}}}` to draw so "
            "many from each grid."
        )
    return made


def chosen(folders: Sequence[Path], select: str) -> int:
    """Which of the finished trials stands best by `training.select` on validation; the first of equals in all."""
    values = [standing(read_json(folder / "metrics.json")["splits"]["val"], select) for folder in folders]
    return values.index(max(values))
