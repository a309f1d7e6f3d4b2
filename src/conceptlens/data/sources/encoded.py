"""Sources whose images lie in image files, on disk or in an archive."""

from abc import abstractmethod
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from conceptlens.data.dataset import DataSource
from conceptlens.data.images.read import Fit, ImageFacts, channels_first, examine_image, resize_square
from conceptlens.data.images.turbo import decode_jpeg


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
        return self._opened(self.encoded(index), index, at_least)

    def _opened(self, file: Path | bytes, index: int, at_least: int | None) -> tuple[Image.Image, ImageFacts]:
        name = str(file) if isinstance(file, Path) else f"{self.name}: {self.examples.ids[index]}"
        return examine_image(file, name=name, at_least=at_least, window=self.window, frame=self.frame(index))

    def read(self, index: int) -> Image.Image:
        return self.examine(index)[0]

    def read_at_least(self, index: int, side: int) -> Image.Image:
        return self.examine(index, side)[0]

    def read_square(self, index: int, side: int, fit: Fit) -> npt.NDArray[np.uint8]:
        own, base = type(self), EncodedSource
        if own.examine is not base.examine or own.read_at_least is not base.read_at_least or self.frame(index):
            return super().read_square(index, side, fit)  # the file does not say all
        file = self.encoded(index)
        pixels = decode_jpeg(file, side)
        if pixels is None:
            return resize_square(self._opened(file, index, side)[0], side, fit)
        if pixels.shape[:2] == (side, side):
            return channels_first(pixels)
        return resize_square(Image.fromarray(pixels), side, fit)
