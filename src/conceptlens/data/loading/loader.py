"""Pixels in batches: decoded when asked for, kept if they fit in memory, read ahead of the one who waits for them."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.data.dataset import DataSource
from conceptlens.data.images.read import Fit

Indices = npt.NDArray[np.int64]


class PixelReader:
    """Reads images of a source as bytes of one size. The same index gives the same bytes, cached or not.

    Decoding and resizing release Python's lock, so threads do the work of several cores without copies between
    processes. One reader may be used by several threads.

    Args:
        source: Where the images are.
        size: Side in pixels of what is returned.
        fit: How an image becomes square, see `resize_square`.
        cache_mb: If all images of the source fit in so many megabytes, each is decoded once and kept.
        workers: Threads that decode a batch; 0 decodes in the caller's.
    """

    def __init__(
        self, source: DataSource, size: int, fit: Fit = "squash", cache_mb: int = 512, workers: int = 0
    ) -> None:
        self.source = source
        self.size = size
        self.fit: Fit = fit
        self._pool = ThreadPoolExecutor(workers, "conceptlens-decode") if workers > 0 else None
        shape = (len(source), 3, size, size)
        # The system hands out memory page by page as images arrive, not at once.
        self._cache = np.empty(shape, np.uint8) if np.prod(shape) <= cache_mb * 2**20 else None
        self._cached = np.zeros(len(source), dtype=bool)

    @property
    def caches(self) -> bool:
        """Whether decoded images are kept."""
        return self._cache is not None

    @property
    def view(self) -> str:
        """How an image becomes bytes, besides their size: other words, other pixels."""
        window = self.source.window
        return self.fit if window == "file" else f"{self.fit}, window {window}"

    def batch(self, indices: Indices) -> Tensor:
        """The images at these positions, (B, 3, S, S) of uint8, in memory of their own."""
        if self._cache is None:
            pixels = np.empty((len(indices), 3, self.size, self.size), dtype=np.uint8)
            for place, image in enumerate(self._decode(indices)):
                pixels[place] = image
            return torch.from_numpy(pixels)
        missing = np.unique(indices[~self._cached[indices]])
        for index, image in zip(missing.tolist(), self._decode(missing), strict=True):
            # Two threads may both bring an image: they write the same bytes, and the mark comes last.
            self._cache[index] = image
            self._cached[index] = True
        return torch.from_numpy(self._cache[indices])

    def prefetch(self, batches: Iterable[Indices], ahead: int = 2) -> Iterator[tuple[Indices, Tensor]]:
        """Each batch with its pixels, while up to `ahead` further ones are being decoded in the background.

        The thread in the background ends with the iterator: at its end, on an error, or when the caller stops early and
        closes it.
        """
        background = ThreadPoolExecutor(1, "conceptlens-prefetch")
        waiting: deque[tuple[Indices, Future[Tensor]]] = deque()
        try:
            for indices in batches:
                waiting.append((indices, background.submit(self.batch, indices)))
                if len(waiting) > ahead:
                    first, pixels = waiting.popleft()
                    yield first, pixels.result()
            while waiting:
                first, pixels = waiting.popleft()
                yield first, pixels.result()
        finally:
            background.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """End the decoding threads; pixels in the cache stay readable."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def __enter__(self) -> "PixelReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _decode(self, indices: Indices) -> Iterator[npt.NDArray[np.uint8]]:
        """Images (3, S, S) in the order asked for; what a thread raises is raised here."""
        return (self._pool.map if self._pool else map)(self._decode_one, indices.tolist())

    def _decode_one(self, index: int) -> npt.NDArray[np.uint8]:
        return self.source.read_square(index, self.size, self.fit)
