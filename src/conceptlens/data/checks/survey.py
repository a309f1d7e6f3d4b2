"""A look at every image before training: its size and kind, whether it can be read, and marks that give copies away."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image
from tqdm import tqdm

from conceptlens.core.errors import UserError
from conceptlens.data.dataset import DataSource
from conceptlens.data.images.read import ImageFacts
from conceptlens.data.sources.encoded import EncodedSource

_SIDE = 24  # of the small version in which detail is compared
_ENOUGH = 128  # pixels a side from which size and marks can be told; large JPEGs are decoded no larger than needed
_CHUNK = 32


@dataclass(frozen=True)
class Survey:
    """Less than a kilobyte on each of N images, however large they are."""

    facts: list[ImageFacts | None]  # None: unreadable
    digest: npt.NDArray[np.uint64]  # (N,) equal for equal pixels
    gradient: npt.NDArray[np.uint64]  # (N,) the sign of 64 differences between neighbors (dHash)
    detail: npt.NDArray[np.int8]  # (N, 576) what a small version shows beyond broad light and dark
    brightness: npt.NDArray[np.float32]  # (N,) mean, 0 to 255
    blank: npt.NDArray[np.bool_]  # (N,) equally bright from edge to edge
    unreadable: dict[int, str]  # position → what is wrong


def survey_images(source: DataSource, *, workers: int | None = None, quiet: bool = False) -> Survey:
    """Decode every image once, on several threads, and keep next to nothing of it.

    Args:
        source: The images.
        workers: Threads; as many as there are cores if not given.
        quiet: No progress bar; there is none either where the output is not a terminal.
    """
    n = len(source)
    survey = Survey(
        [None] * n,
        np.zeros(n, np.uint64),
        np.zeros(n, np.uint64),
        np.zeros((n, _SIDE * _SIDE), np.int8),
        np.zeros(n, np.float32),
        np.zeros(n, np.bool_),
        {},
    )

    def look(positions: range) -> int:
        for index in positions:
            try:
                image, survey.facts[index] = _examine(source, index)
            except UserError as error:
                survey.unreadable[index] = str(error)
                continue
            survey.digest[index] = _digest(image)
            gray = image.convert("L")
            low, high = gray.getextrema()
            survey.blank[index] = low == high
            survey.detail[index], survey.brightness[index] = fine_detail(gray)
            survey.gradient[index] = gradient_hash(gray)
        return len(positions)

    with (
        ThreadPoolExecutor(workers or os.cpu_count() or 1, "conceptlens-survey") as pool,
        tqdm(total=n, desc="looking at images", unit="image", disable=True if quiet else None, leave=False) as progress,
    ):
        for done in pool.map(look, _chunks(n)):
            progress.update(done)
    return survey


def gradient_hash(gray: Image.Image) -> np.uint64:
    """dHash: shrink to 9 × 8, one bit for each pixel that is darker than the one to its right."""
    small = np.asarray(_shrink(gray, 9, 8), dtype=np.int16)
    return np.uint64(int.from_bytes(np.packbits(small[:, :-1] < small[:, 1:]).tobytes(), "little"))


def fine_detail(gray: Image.Image) -> tuple[npt.NDArray[np.int8], float]:
    """A small version (576,) less its own 3 × 3 mean, and its brightness.

    Strong edges are cut to two gray levels: the rim that all images of a series share must not outweigh the vessels
    that only one of them has.
    """
    small = np.asarray(_shrink(gray, _SIDE, _SIDE), dtype=np.float32)
    blurred = sliding_window_view(np.pad(small, 1, mode="edge"), (3, 3)).mean((2, 3))
    return np.rint(np.clip(small - blurred, -2, 2) * 32).astype(np.int8).reshape(-1), float(small.mean())


def _examine(source: DataSource, index: int) -> tuple[Image.Image, ImageFacts]:
    if isinstance(source, EncodedSource):
        return source.examine(index, _ENOUGH)
    image = source.read(index)
    return image, ImageFacts(*image.size, image.mode, gray=False, alpha=False, deep=False, rotated=False, frames=1)


def _digest(image: Image.Image) -> np.uint64:
    digest = blake2b(np.asarray(image.size, np.int64).tobytes(), digest_size=8)
    digest.update(image.tobytes())
    return np.uint64(int.from_bytes(digest.digest(), "little"))


def _shrink(gray: Image.Image, width: int, height: int) -> Image.Image:
    return gray.resize((width, height), Image.Resampling.BOX)


def _chunks(n: int) -> Iterator[range]:
    return (range(start, min(start + _CHUNK, n)) for start in range(0, n, _CHUNK))
