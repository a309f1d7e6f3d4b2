"""A finished run, opened: weights, concepts, data, splits and kept predictions. This is the only place that opens one.

A measure takes an `OpenedRun` and has no prologue of its own: whether the run is done, what its weights are, which
device they are on and whether its data is still the same is answered here, each when it is first asked for.
"""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from conceptlens.concepts import ConceptSet
from conceptlens.core.devices import best_device
from conceptlens.core.errors import DamagedError, UserError
from conceptlens.core.files import read_json
from conceptlens.core.manifest import has_manifest, refuse_gone
from conceptlens.core.network import offline
from conceptlens.data.dataset import DataSource
from conceptlens.data.sources.open import open_source
from conceptlens.data.splits.splits import Splits
from conceptlens.methods.contract import Pipeline
from conceptlens.recipes import DataConfig, Recipe
from conceptlens.recipes.parse import load_recipe
from conceptlens.runs.folder import RunFolder, check_writable
from conceptlens.runs.folds import fold_folders
from conceptlens.runs.predictions import StoredPredictions, load_predictions
from conceptlens.runs.readout import Readout, TrainingLabels, read_out
from conceptlens.runs.saved import Card, load_pipeline

KIND = "bottleneck"  # what `run.json` of a trained model says


class OpenedRun:
    """A trained model and what belongs to it; each part is opened when it is first asked for.

    Args:
        folder: The run folder.
        device: Where the weights go; the GPU where there is one by default.
        data: The data it was trained on, where that was in memory; opened as the recipe says by default.
    """

    def __init__(self, folder: RunFolder, *, device: str | torch.device | None = None, data: Any = None) -> None:
        self.folder = folder
        self.device = torch.device(device) if device is not None else best_device()
        self.memory = data  # images and labels that the recipe does not name
        self._predictions: dict[str, StoredPredictions] = {}
        self._readouts: dict[str, Readout] = {}

    @classmethod
    def open(cls, run: "str | Path | OpenedRun", *, device: str | torch.device | None = None, data: Any = None) -> Self:
        """Open a run folder; an opened run stays as it is.

        Raises:
            UserError: There is no such run, it is not done, or it is no trained model.
        """
        if isinstance(run, cls):
            return run
        folder = RunFolder.open(run.path if isinstance(run, OpenedRun) else run)
        info = folder.info
        if info.get("kind", KIND) != KIND:
            raise UserError(
                f"{folder.path}: expected a trained model, found a folder of the kind {info['kind']!r}. Name a run "
                "that `conceptlens train` made."
            )
        if info["status"] != "done":
            raise UserError(
                f"{folder.path}: this run is not done ({info['status']}). Finish it with {folder.how_to_go_on}."
            )
        return cls(folder, device=device, data=data)

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @property
    def unverified(self) -> tuple[str, ...]:
        """A sentence where nothing vouches for the files of this run; none where their manifest does."""
        if has_manifest(self.path):
            return ()
        return (
            f"{self.path}: unverified, as it has no manifest; a changed file is not noticed (`conceptlens rehash`).",
        )

    @property
    def name(self) -> str:
        """Of the folder."""
        return self.folder.path.name

    @cached_property
    def info(self) -> dict[str, Any]:
        """`run.json`."""
        return self.folder.info

    def read_history(self) -> list[dict[str, Any]]:
        """`history.jsonl`: losses, validation metrics and ranks, one entry a line."""
        return self.folder.read_history()

    @cached_property
    def recipe(self) -> Recipe:
        """Every setting that it was trained with."""
        return load_recipe(self.path / "recipe.yaml")

    @cached_property
    def _loaded(self) -> tuple[Pipeline, Card, ConceptSet]:
        if not (self.path / "model").exists():
            raise UserError(f"{self.path / 'model'}: no such folder. Copy the whole run folder.")
        pipeline, card, concepts = load_pipeline(self.path)
        pipeline.to(self.device).eval().requires_grad_(False)
        return pipeline, card, concepts

    @property
    def pipeline(self) -> Pipeline:
        """Encoder, regularizer and method, on the device, in evaluation mode."""
        return self._loaded[0]

    @property
    def card(self) -> Card:
        """Classes, task, image size, thresholds."""
        return self._loaded[1]

    @property
    def concepts(self) -> ConceptSet:
        """The concepts that the run was trained with."""
        return self._loaded[2]

    @property
    def read_concepts(self) -> ConceptSet:
        """The concepts that the model speaks of: none, for a method that reads none."""
        return self.concepts if self.pipeline.model.reads_concepts else ConceptSet.none()

    def need_concepts(self, why: str) -> None:
        """Refuse a method that reads no concepts.

        Args:
            why: What cannot be done without them, as "there is nothing to explain its classes by".
        """
        if not self.pipeline.model.reads_concepts:
            raise UserError(
                f"{self.path}: {self.info['method']} reads no concepts, so {why}. Choose a run of a method that does, "
                "such as ivq-cbm."
            )

    @cached_property
    def source(self) -> DataSource:
        """The run's own data, checked to be what it was trained on."""
        with offline():  # the run names it, not the user
            return self.unchanged(open_source(self.recipe.data, self.concepts, data=self.memory)[0])

    def open_data(self, config: DataConfig) -> DataSource:
        """Other data, with labels of the run's concepts."""
        return open_source(config, self.concepts)[0]

    def unchanged(self, source: DataSource) -> DataSource:
        """The same source, checked to be what the run was trained on."""
        if source.examples.fingerprint != self.info["data"]["hash"]:
            raise UserError(
                f"{source.name}: names or labels changed since this run was trained. Bring the same data back, or name "
                "image files or other data (--data) instead."
            )
        return source

    @cached_property
    def splits(self) -> Splits:
        """Which images are on which side."""
        where = self.path / "splits.json"
        refuse_gone(where)
        return Splits.from_json(read_json(where), self.source.examples.ids, where=str(where))

    @property
    def reported_split(self) -> str:
        """The split that the run's numbers speak of: the test, or validation where no test image has a class."""
        where = self.path / "metrics.json"
        refuse_gone(where)
        try:
            return "test" if read_json(where)["splits"].get("test", {}).get("class", {}).get("n") else "val"
        except (KeyError, TypeError, AttributeError):
            raise UserError(f"{where}: expected what training writes. Copy the run folder again.") from None

    def reported_images(self) -> tuple[str, npt.NDArray[np.int64]]:
        """That split, and the positions of its images in the data."""
        split = self.reported_split
        indices = self.splits[split]
        if not len(indices):
            raise UserError(f"{self.path / 'splits.json'}: no image in {split}.")
        return split, indices

    def predictions(self, split: str = "test") -> StoredPredictions:
        """What training kept of the images of a split."""
        if split not in self._predictions:
            self._predictions[split] = load_predictions(self.path, split)
        if not self._predictions[split].ids:
            self.refuse_cross_validated(split)
        return self._predictions[split]

    def refuse_cross_validated(self, split: str) -> None:
        """Say where the test images of a cross-validated run are: its final model has learned from all of them."""
        if split == "test" and (folders := fold_folders(self.path)):
            raise UserError(
                f"{self.path}: this run was cross-validated, and its final model has seen every image. Name one of its "
                f"{len(folders)} folds, as {folders[0]}, whose test images its model has not seen; or --split val."
            )

    def readout(self, split: str = "test") -> Readout:
        """What the class head read of each image of a split, and the head."""
        if split not in self._readouts:
            stored, model, concepts = self.predictions(split), self.pipeline.model, self.concepts
            try:
                self._readouts[split] = read_out(model, stored, concepts)
            except UserError as error:
                raise UserError(f"{self.path}: {error}") from None
        # Added here: a readout that the run keeps must not keep the run, whose folder may live only as long as it.
        return replace(self._readouts[split], training=self._training_labels)

    def _training_labels(self) -> TrainingLabels | None:
        """Labels of the training images; None if the run's data is not there, or not what it was."""
        try:
            examples, train = self.source.examples, self.splits["train"]
        except DamagedError:
            raise
        except (UserError, OSError):
            return None
        return TrainingLabels(examples.concepts[train], examples.labels[train])

    def out_folder(self, out: str | Path | None, default: str) -> Path:
        """A folder for results, made and checked to be writable before the work begins."""
        folder = Path(out) if out else self.path / default
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder}: expected a folder, found a file. Choose another one with --out.")
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder)
        return folder
