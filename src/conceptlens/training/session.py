"""What a training consists of, and where it reads its images from."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.processes import Launched
from conceptlens.data.dataset import DataSource
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.loading.resident import ResidentReader, stays_resident
from conceptlens.data.loading.transfer import to_device
from conceptlens.data.sources.open import open_source
from conceptlens.data.splits.splits import Splits
from conceptlens.encoders.store.reader import StoredReader
from conceptlens.encoders.store.resident import ResidentTokens
from conceptlens.methods.build import Blueprint, build_pipeline
from conceptlens.methods.contract import Pipeline
from conceptlens.nn.grounding.places import PlaceTargets
from conceptlens.recipes import Recipe
from conceptlens.runs.folder import RunFolder
from conceptlens.training.batches.own_transform import OwnTransform
from conceptlens.training.records.callbacks import Callbacks
from conceptlens.training.records.progress import Progress

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shared:
    """What the folds of a cross-validation and its final model compute once: none of it is learned.

    Attributes:
        tokens: Folder for what `encoder.store: run` keeps.
        vectors: Of each encoder that `encoder.name: auto` compares, the vectors of images by their position.
    """

    tokens: Path
    vectors: dict[str, dict[int, npt.NDArray[np.float64]]] = field(default_factory=dict)


@dataclass
class Session:
    """Everything a training consists of."""

    blueprint: Blueprint
    pipeline: Pipeline
    source: DataSource
    splits: Splits
    reader: PixelReader
    run: RunFolder
    processes: Launched
    progress: Progress
    stored: StoredReader | None = None  # tokens that come in place of pixels while training
    resident: ResidentReader | None = None  # pixels that live on the device while training
    places: PlaceTargets | None = None  # of the training images, for a method that learns from places
    data: Any = None  # data in memory, where the recipe names none
    callbacks: Callbacks = field(default_factory=Callbacks)
    transform: OwnTransform | None = None  # the user's own augmentation
    dropped: dict[str, str] = field(default_factory=dict)  # concept → why the method left it out
    shared: Shared | None = None  # with the other folds of a cross-validation

    @property
    def recipe(self) -> Recipe:
        return self.blueprint.recipe

    @property
    def inputs(self) -> PixelReader | StoredReader | ResidentReader:
        """What training reads: stored tokens where there are any, else pixels, on the device if they live there."""
        return self.stored or self.resident or self.reader

    def stream(self, batches: Iterator[Indices]) -> Iterator[Tensor]:
        """What training reads of each batch, on the device; read ahead."""
        found = self.inputs.prefetch(batches)
        there = isinstance(self.inputs, (ResidentReader, ResidentTokens))
        ready = found if there else to_device(found, self.processes.device)
        return (inputs for _, inputs in ready)

    @contextlib.contextmanager
    def resident_images(self) -> Iterator[None]:
        """While training, keep the images on the device, if the recipe and the device's memory say so."""
        indices = np.concatenate((self.splits.train, self.splits.val))
        device, setting = self.processes.device, self.recipe.data.resident
        if self.stored is None and stays_resident(setting, len(indices), self.reader.size, device):
            with self.progress.counting("loading images", len(indices)) as count:
                self.resident = ResidentReader(self.reader, indices, device, count)
        try:
            yield
        finally:
            self.resident = None

    def choose(self, chosen: ConceptSet, dropped: Mapping[str, str] | None = None) -> None:
        """Go on with the concepts that the method chose; the model has shrunk to them already.

        Args:
            chosen: Some of the session's concepts, or all.
            dropped: Of each concept that is left out, why.
        """
        before = self.blueprint.concepts
        gone = [name for name in before.names if name not in chosen.names]
        if not gone:
            return
        if self.pipeline.regularizer.state_dict():
            raise UserError(
                f"regularizer.name: {self.recipe.regularizer['name']!r} is as large as the concept set, but the method "
                f"left {len(gone)} concepts out. Set `regularizer: none`."
            )
        reasons = dropped or {}
        self.dropped = {**self.dropped, **{name: reasons.get(name, "the method did not choose it") for name in gone}}
        self.source.examples = self.source.examples.with_concepts([before.names.index(name) for name in chosen.names])
        self.blueprint = replace(self.blueprint, concepts=chosen, text=None)
        self.progress.note(
            f"{len(gone)} of {len(before)} concepts are left out: {', '.join(gone[:5])}{', …' * (len(gone) > 5)}"
        )

    def take_over(self, concepts: str, dropped: Mapping[str, str]) -> None:
        """Bring model and labels to the concepts of a state, where the method chose some before it was written."""
        self.dropped = dict(dropped)
        if concepts and concepts != self.blueprint.concepts.to_yaml():
            chosen = ConceptSet.from_yaml(concepts, where="state", name=self.blueprint.concepts.name)
            self.source.examples = open_source(self.recipe.data, chosen, data=self.data)[0].examples
            self.blueprint = replace(self.blueprint, concepts=chosen, text=None)
            fresh = build_pipeline(self.blueprint)  # its weights come with the state; the encoder keeps its cut
            self.pipeline.model, self.pipeline.regularizer = fresh.model, fresh.regularizer
        if self.processes.main:
            self.write_choice()

    def write_choice(self) -> None:
        """The chosen concepts as the run's, and why the others are not among them."""
        concepts, info = self.blueprint.concepts, self.run.info
        chosen_before = "dropped_concepts" in info
        if info["concepts"]["hash"] == concepts.fingerprint or not (self.dropped or chosen_before):
            return
        offered = {"offered": len(concepts.whole), "offered_hash": concepts.whole.fingerprint}
        self.run.write("concepts.yaml", concepts.to_yaml())
        self.run.update(
            concepts={"name": concepts.name, "hash": concepts.fingerprint, **offered},
            dropped_concepts=[{"concept": name, "reason": reason} for name, reason in self.dropped.items()],
        )
