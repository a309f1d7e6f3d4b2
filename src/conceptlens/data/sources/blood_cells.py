"""The built-in blood cells: 1,850 white blood cells at 96 pixels in five classes, with eleven attributes each.

Images from PBC (Acevedo et al. 2020), labels and splits from WBCAtt (Tsutsui et al. 2023); a subset in which the five
classes are equally frequent in every split, so that results are not comparable with those on the full set. See
builtin/ATTRIBUTION.md for sources, licenses and the way the subset was chosen.
"""

import io
import zipfile
from importlib import resources
from typing import Any

from conceptlens.concepts import ConceptSet
from conceptlens.data.checks.findings import Problems
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
        concepts = concepts or ConceptSet.load(self.name)
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

    def _open(self) -> zipfile.ZipFile:
        """The archive in memory: its 5 MB are read once, and a forked process shares no position in a file with us."""
        if self._archive is None:
            content = resources.files("conceptlens.data.sources").joinpath("builtin", "blood-cells.zip").read_bytes()
            self._archive = zipfile.ZipFile(io.BytesIO(content))
        return self._archive

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_archive": None}
