"""The images that a model is asked about, one after the other, whatever they come as.

Files and folders, PIL images, numpy arrays (H, W, 3) or (N, H, W, 3), torch tensors (3, H, W) or (N, 3, H, W), a torch
`Dataset`, a `DataLoader`, any list of these, or images of the run's own data. Arrays and tensors hold bytes, or numbers
from 0 to 1. An image that cannot be read carries its error and stops no other; a shape that no image has is refused.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from conceptlens.core.errors import UserError
from conceptlens.data.images.read import SUFFIXES, open_image, resize_square, upright_rgb
from conceptlens.data.labels.words import printable
from conceptlens.explanations.pictures.overlay import SIDE
from conceptlens.runs.image_choice import Indices, choose_images
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.saved import Card

OneImage = str | Path | Image.Image | npt.NDArray[Any] | Tensor
Images = OneImage | Dataset[Any] | DataLoader[Any] | Sequence[OneImage]
ARRAY = "an array (H, W, 3) or (N, H, W, 3)"
TENSOR = "a tensor (3, H, W) or (N, 3, H, W)"
SLACK = 1e-3  # beyond 0 and 1 that a filter may leave


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


def choose_subjects(
    run: OpenedRun, images: Images = (), *, split: str = "test", n: int = 12, show: str = "all", pictures: bool = True
) -> Iterator[Subject]:
    """Images as they are given; where there are none, images of the run's own data.

    Args:
        run: The run.
        images: See above; an empty list for the run's own.
        split: Of the run's own data.
        n: At most so many of its images.
        show: Which: `right`, `wrong`, `uncertain` or `all`.
        pictures: Also make the square that people look at.
    """
    if isinstance(images, list | tuple) and not images:
        return own_subjects(run, choose_images(run, split=split, show=show, n=n), split, pictures=pictures)
    return subjects(images, run.card, pictures=pictures)


def subjects(images: Images, card: Card, *, pictures: bool = True) -> Iterator[Subject]:
    """Images as the model of a card sees them."""
    if isinstance(images, np.ndarray) and images.dtype == np.uint8 and not pictures:
        size = card.image_size
        if images.shape[-3:] == (size, size, 3):  # nothing is left to do
            for number, array in enumerate(_split(images, last=True)):
                yield Subject(f"image {number}", array.transpose(2, 0, 1))
            return
    for number, (name, image, error) in enumerate(_items(images)):
        name = name or f"image {number}"
        if image is None:
            yield Subject(name, error=error)
            continue
        try:
            rgb = _rgb(image, name, card)
        except UserError as problem:
            yield Subject(name, error=str(problem))
            continue
        yield _subject(name, rgb, card, pictures)


def own_subjects(run: OpenedRun, indices: Indices, split: str, *, pictures: bool = True) -> Iterator[Subject]:
    """Images of the run's own data by their positions."""
    source, card = run.source, run.card
    for index in indices.tolist():
        name = source.examples.ids[index]
        try:
            image = source.read_at_least(index, card.image_size)
        except UserError as error:
            yield Subject(name, split=split, error=str(error))
            continue
        truth = class_names(source.examples.labels[index], source.classes)
        labels = source.examples.concepts[index].tolist()
        yield _subject(name, image, card, pictures, split=split, truth=truth, labels=labels)


def find_images(paths: Sequence[str | Path]) -> list[Path]:
    """Files as named, and all images below folders as named, sorted."""
    files: list[Path] = []
    for entry in map(Path, paths):
        if entry.is_dir():
            inside = sorted(file for file in entry.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
            if not inside:
                raise UserError(f"{entry}: no image in this folder.")
            files += inside
        else:
            files.append(entry)
    return files


def class_names(label: Any, classes: Sequence[str]) -> list[str] | None:
    """The true classes of an image by its label; None where nobody knows."""
    if np.ndim(label):
        return [name for name, mark in zip(classes, label, strict=True) if mark == 1] if (label >= 0).any() else None
    return [classes[int(label)]] if label >= 0 else None


def _subject(name: str, image: Image.Image, card: Card, picture: bool, **known: Any) -> Subject:
    """The same square for the model and, with more pixels where there are more, for people."""
    shown: Image.Image | None = None
    if picture:
        square = resize_square(image, SIDE, card.fit)
        shown = Image.fromarray(np.ascontiguousarray(square.transpose(1, 2, 0)))
    return Subject(name, resize_square(image, card.image_size, card.fit), shown, **known)


def _rgb(image: Path | Image.Image, name: str, card: Card) -> Image.Image:
    if isinstance(image, Path):
        return open_image(image, name=name, at_least=card.image_size, window=card.window)
    return upright_rgb(image, name=name, window=card.window)


_Item = tuple[str | None, Path | Image.Image | None, str | None]  # a name, the image, or why there is none


def _items(images: Any) -> Iterator[_Item]:
    """One image at a time."""
    if isinstance(images, str | Path):
        for file in find_images([images]):
            yield printable(str(file)), file, None
    elif isinstance(images, Image.Image):
        name = getattr(images, "filename", "")
        yield printable(str(name)) if name else None, images, None
    elif isinstance(images, np.ndarray):
        for array in _split(images, last=True):
            yield None, Image.fromarray(array), None
    elif isinstance(images, Tensor):
        held = images.detach().cpu()
        for array in _split((held.float() if held.is_floating_point() else held).numpy(), last=False):
            yield None, Image.fromarray(np.ascontiguousarray(array.transpose(1, 2, 0))), None
    elif isinstance(images, DataLoader):
        for batch in images:
            yield from _items(_first(batch))
    elif isinstance(images, Dataset):
        yield from _of_dataset(images)
    elif isinstance(images, Iterable) and not isinstance(images, bytes | dict | set):
        for image in images:
            yield from _items(image)
    else:
        raise UserError(
            f"Expected a file, a folder, a PIL image, {ARRAY}, {TENSOR}, a Dataset, a DataLoader or a list of these; "
            f"found {type(images).__name__}."
        )


def _of_dataset(dataset: Dataset[Any]) -> Iterator[_Item]:
    """Items are images, or tuples that begin with one."""
    if isinstance(dataset, IterableDataset):
        for item in dataset:
            yield from _items(_first(item))
        return
    for position in range(len(dataset)):  # type: ignore[arg-type]
        try:
            item = dataset[position]
        except (UserError, OSError) as error:
            yield None, None, f"image {position}: {error}"
            continue
        yield from _items(_first(item))


def _first(item: Any) -> Any:
    return item[0] if isinstance(item, list | tuple) and item else item


def _split(images: npt.NDArray[Any], *, last: bool) -> Iterator[npt.NDArray[np.uint8]]:
    """Bytes of each image of an array, channels last or first."""
    kind = ARRAY if last else TENSOR
    channels = images.shape[-1 if last else -3] if images.ndim in (3, 4) else 0
    if channels != 3 or 0 in images.shape[-3:]:
        raise UserError(f"Expected {kind} of RGB images, found the shape {images.shape}.")
    if images.dtype == np.uint8 or not len(images):
        numbers = images
    elif np.issubdtype(images.dtype, np.floating):
        low, high = float(images.min()), float(images.max())
        if not (low >= -SLACK and high <= 1 + SLACK):
            raise UserError(
                f"Expected {kind} of numbers from 0 to 1, or bytes; found numbers from {low:.3g} to {high:.3g}. Leave "
                "out any normalization: the model does its own."
            )
        numbers = np.rint(np.clip(images, 0, 1) * 255).astype(np.uint8)
    else:
        raise UserError(f"Expected {kind} of bytes (uint8) or of numbers from 0 to 1, found the type {images.dtype}.")
    yield from numbers if numbers.ndim == 4 else [numbers]
