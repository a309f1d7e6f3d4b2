"""Sources whose images lie in image files, on disk or in an archive."""

from abc import abstractmethod
from pathlib import Path

from PIL import Image

from conceptlens.data.dataset import DataSource
from conceptlens.data.images.read import ImageFacts, examine_image


class EncodedSource(DataSource):
    """A source that hands out encoded images; decoding is the same for all."""

    @abstractmethod
    def encoded(self, index: int) -> Path | bytes:
        """The image's file, or its content."""

    def frame(self, index: int) -> int:
        """Which of several frames of its file the image is, counted from 0."""
        return 0

    def examine(self, index: int, at_least: int | None = None) -> tuple[Image.Image, ImageFacts]:
        """The image as RGB, upright, and what its file held; see `examine_image`."""
        file = self.encoded(index)
        name = str(file) if isinstance(file, Path) else f"{self.name}: {self.examples.ids[index]}"
        return examine_image(file, name=name, at_least=at_least, window=self.window, frame=self.frame(index))

    def read(self, index: int) -> Image.Image:
        return self.examine(index)[0]

    def read_at_least(self, index: int, side: int) -> Image.Image:
        return self.examine(index, side)[0]
