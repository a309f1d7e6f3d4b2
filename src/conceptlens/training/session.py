"""What a training consists of, and where it reads its images from."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from conceptlens.data.dataset import DataSource
from conceptlens.data.loader import PixelReader
from conceptlens.data.resident import ResidentReader, stays_resident
from conceptlens.data.splits import Splits
from conceptlens.data.transfer import to_device
from conceptlens.features.reader import StoredReader
from conceptlens.models.build import Blueprint
from conceptlens.models.contract import Pipeline
from conceptlens.processes import Launched
from conceptlens.recipe import Recipe
from conceptlens.runs import RunFolder
from conceptlens.training.progress import Progress

Indices = npt.NDArray[np.int64]


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
        ready = found if self.inputs is self.resident else to_device(found, self.processes.device)
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
