"""Stored tokens in batches, in the place of pixels."""

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
from torch import Tensor

from conceptlens.encoders.store.store import TokenStore

Indices = npt.NDArray[np.int64]


class StoredReader:
    """Reads like a `PixelReader`, but tokens (B, N, D) in half precision; the system's page cache reads ahead."""

    def __init__(self, store: TokenStore, rows: Indices | None = None) -> None:
        self.store, self.rows = store, rows

    def batch(self, indices: Indices) -> Tensor:
        return self.store.read(self.places(indices))

    def places(self, indices: Indices) -> Indices:
        """Where images lie in the store, which may hold some of them only: those of `rows`, ascending numbers."""
        return np.asarray(indices) if self.rows is None else np.searchsorted(self.rows, indices)

    def prefetch(self, batches: Iterable[Indices], ahead: int = 2) -> Iterator[tuple[Indices, Tensor]]:
        for indices in batches:
            yield indices, self.batch(indices)
