"""Sources whose images lie in image files, on disk or in an archive."""

from abc import abstractmethod
from pathlib import Path

from PIL import Image

from conceptlens.data.dataset import DataSource
from conceptlens.data.images import open_image


class EncodedSource(DataSource):
    """A source that hands out encoded images; decoding is the same for all."""

    @abstractmethod
    def encoded(self, index: int) -> Path | bytes:
        """The image's file, or its content."""

    def name_of(self, index: int) -> str:
        """What to call the image in an error: a path that can be opened, where there is one."""
        file = self.encoded(index)
        return str(file) if isinstance(file, Path) else f"{self.name}: {self.examples.ids[index]}"

    def read(self, index: int) -> Image.Image:
        return open_image(self.encoded(index), name=self.name_of(index))

    def read_at_least(self, index: int, side: int) -> Image.Image:
        return open_image(self.encoded(index), name=self.name_of(index), at_least=side)
