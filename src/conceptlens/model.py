"""A trained model as an object: `train` and `resume` make one, `load` opens one."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from conceptlens.core.errors import UserError
from conceptlens.recipes.parse import load_recipe, merge, parse_overrides, read_recipe
from conceptlens.recipes.settings import settings_tree
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.opened import OpenedRun

Overrides = Sequence[str] | Mapping[str, Any]


class TrainedModel(OpenedRun):
    """A trained model: predict, explain, correct, measure and export it. Its files are in `path`."""

    _kept: tempfile.TemporaryDirectory[str] | None = None  # the folder of a model that lives as long as this object

    @property
    def module(self) -> nn.Module:
        """The network as a plain `nn.Module`: images (B, 3, H, W), as bytes or from 0 to 1, to a `ConceptOutput`."""
        return self.pipeline

    @property
    def classes(self) -> list[str]:
        """The classes' names, in the order of the logits."""
        return list(self.card.classes)

    @property
    def concept_names(self) -> list[str]:
        """The concepts' names, in the order of the bottleneck."""
        return self.read_concepts.names

    def __repr__(self) -> str:
        info = self.info
        return f"TrainedModel({str(self.path)!r}, method={info['method']!r}, data={info['data']['name']!r})"


def load(run: str | Path | OpenedRun, *, device: str | torch.device | None = None, data: Any = None) -> TrainedModel:
    """Open a trained model.

    Args:
        run: Its run folder.
        device: Where the weights go; the GPU where there is one by default.
        data: The data it was trained on, where that was in memory.
    """
    return TrainedModel.open(run, device=device, data=data)


def train(
    recipe: str | Path | Mapping[str, Any] | None = None,
    overrides: Overrides = (),
    *,
    data: Any = None,
    overwrite: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> TrainedModel:
    """Train a recipe and return the model.

    Args:
        recipe: A YAML file, the name of a ready recipe, or a mapping; the defaults if None.
        overrides: Settings laid over the recipe: a mapping, or words as on the command line.
        data: In the place of the recipe's data: the name of a source, or data in memory: (images, labels, concepts), a
            data frame, a torch `Dataset`, `ImageData` or a `DataSource`. Without an `out`, the run folder of a model
            that was trained on data in memory is removed with the model.
        overwrite: Replace a run that is in the way.
        quiet: Show no progress.
        settings: Further settings by name, as `epochs=10`, `seed=1` or `encoder__train=1`.
    """
    from conceptlens.reports.page import write_report
    from conceptlens.training.train import start_run

    tree = parse_overrides(overrides) if not isinstance(overrides, Mapping) else dict(overrides)
    tree = merge(tree, settings_tree(settings))
    kept, held = None, None
    if isinstance(data, str | Path):
        tree = merge(tree, {"data": {"source": str(data)}})
    elif data is not None:
        from conceptlens.data.sources.memory import MEMORY

        held = data
        tree = merge(tree, {"data": {"source": MEMORY}})
        if "out" not in tree and not (recipe is not None and "out" in read_recipe(recipe)[0]):
            kept = tempfile.TemporaryDirectory(prefix="conceptlens-")
            tree["out"] = str(Path(kept.name) / "run")
    folder = start_run(load_recipe(recipe, tree), write_report, data=held, overwrite=overwrite, quiet=quiet)
    model = TrainedModel(folder, data=held)
    model._kept = kept
    return model


def resume(run: str | Path, *, data: Any = None, quiet: bool = False) -> TrainedModel:
    """Go on with a training that was stopped, to the same result as if it had not been.

    Args:
        run: The run folder.
        data: The data it was trained on, where that was in memory.
        quiet: Show no progress.
    """
    from conceptlens.reports.page import write_report
    from conceptlens.training.train import resume_run

    kind = RunFolder.open(run).info.get("kind", "bottleneck")
    if kind != "bottleneck":
        raise UserError(f"{run}: expected a training, found a folder of the kind {kind!r}.")
    return TrainedModel(resume_run(run, write_report, data=data, quiet=quiet), data=data)
