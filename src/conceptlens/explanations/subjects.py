"""The images to explain, one after the other: files as named, or images of the run's own data."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from conceptlens.core.errors import UserError
from conceptlens.data.images.read import open_image, resize_square
from conceptlens.data.labels.words import printable
from conceptlens.explanations.pictures.overlay import SIDE
from conceptlens.runs.images import Indices, OwnImages
from conceptlens.runs.saved import Card


@dataclass(frozen=True)
class Subject:
    """An image as the model sees it and as people see it, and what is known of it; or why it could not be read."""

    image: str
    pixels: npt.NDArray[np.uint8] | None = None  # (3, S, S)
    picture: Image.Image | None = None
    split: str | None = None
    truth: list[str] | None = None
    labels: list[int] | None = None  # (K,) of 0, 1, negative for unknown
    error: str | None = None


def from_files(files: Sequence[Path], card: Card) -> Iterator[Subject]:
    for file in files:
        name = printable(str(file))
        try:
            image = open_image(file, name=name, at_least=card.image_size, window=card.window)  # as `predict` does
        except UserError as error:
            yield Subject(name, error=str(error))
            continue
        yield Subject(name, *_seen(image, card))


def from_own(own: OwnImages, indices: Indices, split: str, card: Card) -> Iterator[Subject]:
    source = own.source
    for index in indices.tolist():
        name = source.examples.ids[index]
        try:
            image = source.read_at_least(index, card.image_size)
        except UserError as error:
            yield Subject(name, split=split, error=str(error))
            continue
        truth = class_names(source.examples.labels[index], source.classes)
        yield Subject(name, *_seen(image, card), split, truth, source.examples.concepts[index].tolist())


def _seen(image: Image.Image, card: Card) -> tuple[npt.NDArray[np.uint8], Image.Image]:
    """The same square for the model and, with more pixels where there are more, for people."""
    shown = resize_square(image, SIDE, card.fit)
    return resize_square(image, card.image_size, card.fit), Image.fromarray(
        np.ascontiguousarray(shown.transpose(1, 2, 0))
    )


def class_names(label: Any, classes: Sequence[str]) -> list[str] | None:
    """The true classes of an image by its label; None where nobody knows."""
    if np.ndim(label):
        return [name for name, mark in zip(classes, label, strict=True) if mark == 1] if (label >= 0).any() else None
    return [classes[int(label)]] if label >= 0 else None
