"""The images that a network is taken apart on: files of a folder, the images of a recipe, or images in memory."""

import hashlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.data.dataset import DataSource
from conceptlens.data.images.read import open_image, resize_square
from conceptlens.data.labels.words import printable
from conceptlens.data.sources.memory import HeldImages
from conceptlens.gig.models.loaded import LoadedModel

T = TypeVar("T")


@dataclass(frozen=True)
class Gallery:
    """Images by number; pixels are read when asked for."""

    names: tuple[str, ...]
    files: tuple[Path, ...] | None
    source: DataSource | None
    model: LoadedModel
    in_memory: bool = False
    workers: int = 0  # threads that read ahead

    def __len__(self) -> int:
        return len(self.names)

    def picture(self, index: int) -> Image.Image:
        """As a person sees it, RGB, the square that the model sees."""
        return Image.fromarray(np.ascontiguousarray(self.bytes(index).numpy().transpose(1, 2, 0)))

    def bytes(self, index: int) -> Tensor:
        """(3, S, S) of uint8."""
        size = self.model.image_size
        if self.source is not None:
            image = self.source.read_at_least(index, size)
        else:
            assert self.files is not None
            image = open_image(self.files[index], name=self.names[index], at_least=size, window=self.model.window)
        return torch.from_numpy(resize_square(image, size, self.model.fit))

    def pixels(self, index: int) -> Tensor:
        """(3, S, S) as the model takes it."""
        return self.model.prepare(self.bytes(index)[None])[0]

    def batches(self, size: int = 16, indices: Sequence[int] | None = None) -> Iterator[tuple[list[int], Tensor]]:
        """Numbers and pixels (B, 3, S, S), one batch after the other."""
        wanted = list(range(len(self)) if indices is None else indices)
        parts = [wanted[start : start + size] for start in range(0, len(wanted), size)]
        if not self.workers:
            for some in parts:
                yield some, self.model.prepare(torch.stack([self.bytes(index) for index in some]))
            return
        with ThreadPoolExecutor(self.workers, "conceptlens-images") as readers:
            ahead: deque[list[Future[Tensor]]] = deque()
            coming = iter(parts)
            for some in parts:
                while len(ahead) < 2 and (later := next(coming, None)) is not None:  # this batch and the next
                    ahead.append([readers.submit(self.bytes, index) for index in later])
                yield some, self.model.prepare(torch.stack([read.result() for read in ahead.popleft()]))

    @cached_property
    def fingerprint(self) -> str:
        """A hash of which images these are: names, and sizes of files; of images in memory their pixels."""
        digest = hashlib.sha256("\n".join(self.names).encode())
        if self.in_memory:
            for index in range(len(self)):
                digest.update(self.bytes(index).numpy().tobytes())
        elif self.files is not None:
            digest.update(" ".join(str(file.stat().st_size) for file in self.files).encode())
        elif self.source is not None:
            digest.update(self.source.examples.fingerprint.encode())
        return digest.hexdigest()[:16]


def from_folder(folder: str | Path, model: LoadedModel, *, most: int | None = None) -> Gallery:
    """All images below a folder, or an even choice of them."""
    from conceptlens.explanations.subjects import find_images

    place = Path(folder)
    if not place.is_dir():
        raise UserError(
            f"images {place}: expected a folder with images, found {'a file' if place.exists() else 'none'}."
        )
    files = _some(find_images([place]), most)
    names = tuple(printable(file.relative_to(place).as_posix()) for file in files)
    return Gallery(names, tuple(files), None, model)


def from_recipe(recipe: str, model: LoadedModel, *, most: int | None = None, trusted: bool = False) -> Gallery:
    """The images of a recipe, or of built-in data by its name; own code runs if the user passed the recipe."""
    from conceptlens.concepts import ConceptSet
    from conceptlens.data.sources.open import BUILTIN, open_source
    from conceptlens.recipes.parse import load_recipe

    loaded = load_recipe({"data": recipe} if recipe in BUILTIN else recipe, trusted=trusted)
    own = None if loaded.data.source in BUILTIN else ConceptSet.none()  # images are all that is read
    source, _ = open_source(loaded.data, ConceptSet.load(loaded.concepts) if loaded.concepts else own)
    chosen = _some(list(range(len(source))), most)
    names = tuple(source.examples.ids[index] for index in chosen)
    return Gallery(names, None, _Part(source, chosen) if len(chosen) < len(source) else source, model)


def from_objects(images: Any, model: LoadedModel, *, most: int | None = None) -> Gallery:
    """Images in memory: paths, PIL images, arrays, tensors, or a torch `Dataset` whose items begin with an image."""
    source = HeldImages(images, model.window)
    chosen = _some(list(range(len(source))), most)
    names = tuple(source.examples.ids[index] for index in chosen)
    return Gallery(names, None, _Part(source, chosen) if len(chosen) < len(source) else source, model, in_memory=True)


def _some(items: list[T], most: int | None) -> list[T]:
    if most is not None and most < 1:
        raise UserError(f"--n: expected one image or more, got {most}.")
    if most is None or len(items) <= most:
        return items
    return [items[round(place)] for place in np.linspace(0, len(items) - 1, most)]


class _Part(DataSource):
    """Some images of a source."""

    def __init__(self, whole: DataSource, chosen: Sequence[int]) -> None:
        self.whole, self.chosen = whole, list(chosen)
        self.name, self.classes, self.task, self.examples = whole.name, whole.classes, whole.task, whole.examples
        self.window = whole.window

    def read(self, index: int) -> Image.Image:
        return self.whole.read(self.chosen[index])

    def read_at_least(self, index: int, side: int) -> Image.Image:
        return self.whole.read_at_least(self.chosen[index], side)
