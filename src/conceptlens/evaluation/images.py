"""The images a finished run is judged on beyond its metrics: its own, perhaps with further annotation, or others."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from conceptlens.core.errors import UserError, unknown_name
from conceptlens.data.dataset import SPLITS, DataSource
from conceptlens.recipes import DataConfig, MetricsConfig
from conceptlens.recipes.parse import load_recipe

if TYPE_CHECKING:
    from conceptlens.runs.opened import OpenedRun

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Judged:
    """Images to judge by, and images on which what is fitted or chosen may be."""

    source: DataSource
    config: DataConfig
    metrics: MetricsConfig
    split: str
    indices: Indices
    fit_name: str
    fit_on: Indices
    choose_name: str
    choose_on: Indices
    other: bool = False  # not the run's own data

    @property
    def same(self) -> bool:
        """There are no other images to fit or choose on."""
        return len(self.fit_on) == 0

    def file(self, stem: str) -> str:
        """The name of a result in the run folder; other data is named in it."""
        return f"{stem}-{self.source.name}.json" if self.other else f"{stem}.json"


def judged_images(run: "OpenedRun", data: Mapping[str, Any] | None, split: str | None) -> Judged:
    """Open the data.

    Args:
        run: The run.
        data: None for the run's own data; keys of `data` with a `source` for others; `regions` alone for its own.
        split: `train`, `val`, `test` or `all`; None for `test` of its own data, `all` of others.
    """
    given = dict(data or {})
    other = "source" in given
    others = [key for key in given if key != "regions"]
    if others and not other:
        raise UserError(f"data.{others[0]}: settings of other data were given, but no data: add --data SOURCE.")
    split = split or ("all" if other else "test")
    if split not in (*SPLITS, "all"):
        raise unknown_name("split", split, (*SPLITS, "all"))
    if other:
        config = as_trained(run, load_recipe({"data": given}).data)
        source = run.open_data(config)
    elif given:
        config = load_recipe(run.path / "recipe.yaml", {"data": given}).data
        if files := dict(given.get("regions") or {}).get("mask_files"):
            # The recipe names the object's masks even where there are none: what is named now takes their place.
            config = replace(config, regions=replace(config.regions, mask_files=dict(files)))
        source = run.unchanged(run.open_data(config))
    else:
        config, source = run.recipe.data, run.source
    sides = given_splits(source) if other else {name: run.splits[name] for name in SPLITS}
    everything = np.arange(len(source), dtype=np.int64)
    indices = everything if split == "all" else sides[split]
    if not len(indices):
        raise UserError(f"{config.source}: no image has the split {split!r}; use --split all.")
    # What is judged must not be what center priors and thresholds are fitted on, where there are other images.
    fit = "val" if split == "train" else "train"
    choose = "train" if split == "val" else "val"
    nothing = everything[:0]
    if split == "all" or not len(sides[fit]) or not len(sides[choose]):
        return Judged(source, config, run.recipe.metrics, split, indices, "", nothing, "", nothing, other)
    return Judged(source, config, run.recipe.metrics, split, indices, fit, sides[fit], choose, sides[choose], other)


def as_trained(run: "OpenedRun", config: DataConfig) -> DataConfig:
    """Other data, read as the run's own: its classes and task, the same view of an image."""
    card = run.card
    return replace(config, classes=list(card.classes), task=card.task, fit=card.fit, window=card.window)


def given_splits(source: DataSource) -> dict[str, Indices]:
    """The images of each split that the data itself names."""
    sides = source.examples.split or ("",) * len(source)
    return {name: np.array([i for i, side in enumerate(sides) if side == name], dtype=np.int64) for name in SPLITS}
