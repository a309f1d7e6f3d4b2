"""Stored tokens that live on the device: read from disk once, then every batch is gathered there by index."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from conceptlens.data.loading.resident import fits_on
from conceptlens.data.loading.transfer import send
from conceptlens.encoders.store.reader import Indices, StoredReader
from conceptlens.encoders.store.store import TokenStore

CHUNK_BYTES = 256 * 2**20


def tokens_stay_resident(setting: Literal["auto"] | bool, store: TokenStore, device: torch.device) -> bool:
    """Whether a store's tokens shall live on the device: `data.resident`."""
    return fits_on(device, setting, size_of(store), f"the stored tokens of {store.key.images:,} images")


def size_of(store: TokenStore) -> int:
    """Bytes of all tokens."""
    return store.key.images * store.tokens * store.width * 2


class ResidentTokens(StoredReader):
    """Reads like a `StoredReader`, the same tokens (B, N, D), but from the device's memory.

    Args:
        store: Where all images' tokens are read from, once.
        device: Where they shall live.
        on_images: Told how many have just arrived.
        rows: The images that the store holds, if not all.
    """

    def __init__(
        self,
        store: TokenStore,
        device: torch.device,
        on_images: Callable[[int], object] = lambda number: None,
        rows: Indices | None = None,
    ) -> None:
        super().__init__(store, rows)
        images = store.key.images
        self.tokens = torch.empty(
            images, store.tokens, store.width, dtype=getattr(torch, store.key.dtype), device=device
        )
        at_once = max(1, CHUNK_BYTES * images // max(size_of(store), 1))
        for start in range(0, images, at_once):
            chunk = np.arange(start, min(start + at_once, images))
            self.tokens[start : start + len(chunk)] = send(store.read(chunk), device)
            on_images(len(chunk))

    def batch(self, indices: Indices) -> Tensor:
        """The tokens at these positions, on the device, in memory of their own."""
        return self.tokens[send(torch.from_numpy(np.ascontiguousarray(self.places(indices))), self.tokens.device)]
