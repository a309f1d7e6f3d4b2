"""The built-in blood cells: 1,850 white blood cells at 96 pixels in five classes, with eleven attributes each.

Images from PBC (Acevedo et al. 2020), labels and splits from WBCAtt (Tsutsui et al. 2023); a subset in which the five
classes are equally frequent in every split, so that results are not comparable with those on the full set. See
builtin/ATTRIBUTION.md for sources, licenses and the way the subset was chosen. Where cell and nucleus are was found by
scripts/blood_cell_masks.py, not marked by people: evidence/blood-cell-masks says how often it is wrong.
"""

import io
import zipfile
from functools import cached_property
from importlib import resources
from typing import Any

import numpy as np
from PIL import Image

from conceptlens.concepts import ConceptSet
from conceptlens.data.checks.findings import Problems
from conceptlens.data.dataset import Annotation
from conceptlens.data.images.off_center import REGIONS, Labels, paste_off_center, region_masks, small_cells
from conceptlens.data.images.read import ImageFacts
from conceptlens.data.labels.columns import read_csv
from conceptlens.data.labels.rows import examples_of, find_column
from conceptlens.data.sources.encoded import EncodedSource
from conceptlens.recipes.schema import DataConfig


class BloodCells(EncodedSource):
    """The package file blood-cells.zip: labels.csv and a JPEG for each of its rows.

    Args:
        concepts: The concept set whose labels are read; the ready set `blood-cells` if not given.
        config: Task and order of the classes.
        problems: Gathers what is wrong instead of raising the first error.
    """

    name = "blood-cells"

    def __init__(
        self, concepts: ConceptSet | None = None, config: DataConfig | None = None, problems: Problems | None = None
    ) -> None:
        concepts = concepts or ConceptSet.load(BloodCells.name)
        # Only these two settings mean something here: the columns are the package's own.
        config = DataConfig(self.name, task=config.task, classes=config.classes) if config else DataConfig(self.name)
        problems = problems or Problems()
        self.task = config.task
        self._archive: zipfile.ZipFile | None = None
        labels = io.BytesIO(self._open().read("labels.csv"))
        table = read_csv(labels, f"{self.name}: labels.csv", problems, expect=config.image_column)
        image = find_column(table, config, "image_column", required=True)
        assert image is not None
        self.classes, self.examples = examples_of(table, image.texts(), config, concepts, problems)

    def encoded(self, index: int) -> bytes:
        return self._open().read(self.examples.ids[index])

    @property
    def region_names(self) -> tuple[str, ...]:
        return REGIONS

    def annotation(self, index: int) -> Annotation | None:
        masks = region_masks(self._labels(index))
        size = next(iter(masks.values())).shape if masks else None
        return Annotation(masks=masks, size=(size[1], size[0])) if size else None

    def _labels(self, index: int) -> Labels:
        """Where cytoplasm and nucleus are, as large as the image."""
        with Image.open(io.BytesIO(BloodCells.encoded(self, index))) as file:  # its header alone is read
            width, height = file.size
        return self._maps[index, :height, :width]

    @cached_property
    def _maps(self) -> Labels:
        """The package file blood-cell-masks.npz: (N, 96, 96), rows as in labels.csv."""
        content = resources.files("conceptlens.data.sources").joinpath("builtin", "blood-cell-masks.npz").read_bytes()
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            maps: Labels = file["labels"]
        return maps

    def _open(self) -> zipfile.ZipFile:
        """The archive in memory: its 5 MB are read once, and a forked process shares no position in a file with us."""
        if self._archive is None:
            content = resources.files("conceptlens.data.sources").joinpath("builtin", "blood-cells.zip").read_bytes()
            self._archive = zipfile.ZipFile(io.BytesIO(content))
        return self._archive

    def __getstate__(self) -> dict[str, Any]:
        return {**{name: value for name, value in self.__dict__.items() if name != "_maps"}, "_archive": None}


class OffCenterBloodCells(BloodCells):
    """The same cells, each pasted at a random place on the background of another image of its split (`off_center`)."""

    name = "blood-cells-off-center"

    def examine(self, index: int, at_least: int | None = None) -> tuple[Image.Image, ImageFacts]:
        image, facts = super().examine(index)
        pasted, _ = self._paste(index, image)
        return pasted, facts

    def _labels(self, index: int) -> Labels:
        return self._paste(index, super().examine(index)[0])[1]

    def _paste(self, index: int, image: Image.Image) -> tuple[Image.Image, Labels]:
        own = super()._labels(index)
        assert self.examples.split is not None
        donors = self._donors[self.examples.split[index]]

        def donor(place: int) -> tuple[Image.Image, Labels]:
            return BloodCells.examine(self, donors[place])[0], BloodCells._labels(self, donors[place])

        return paste_off_center(self.examples.ids[index], image, own, donor, len(donors))

    @cached_property
    def _donors(self) -> dict[str, list[int]]:
        """Of each split, the images whose background is used."""
        splits = np.array(self.examples.split)
        own = {str(split): np.flatnonzero(splits == split) for split in np.unique(splits)}
        return {split: rows[small_cells(list(self._maps[rows]))].tolist() for split, rows in own.items()}
