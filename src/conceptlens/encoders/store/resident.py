"""Stored tokens that live on the device: read from disk once, then every batch is gathered there by index."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.data.loading.resident import SHARE
from conceptlens.data.loading.transfer import send
from conceptlens.encoders.store.reader import Indices, StoredReader
from conceptlens.encoders.store.store import TokenStore

CHUNK_BYTES = 256 * 2**20


def tokens_stay_resident(setting: Literal["auto"] | bool, store: TokenStore, device: torch.device) -> bool:
    """Whether a store's tokens shall live on the device: `data.resident`.

    `auto`: on a GPU, where they take at most a quarter of its free memory.
    """
    if setting is False or (setting == "auto" and device.type != "cuda"):
        return False
    if device.type != "cuda":
        return True
    needed, free = size_of(store), torch.cuda.mem_get_info(device)[0]
    if setting == "auto":
        return needed <= SHARE * free
    if needed > free:
        raise UserError(
            f"data.resident: the stored tokens of {store.key.images:,} images need {needed / 2**30:.1f} GB, {device} "
            f"has {free / 2**30:.1f} GB left. Set data.resident to auto, or encoder.image_size lower."
        )
    return True


def size_of(store: TokenStore) -> int:
    """Bytes of all tokens."""
    return store.key.images * store.tokens * store.width * 2


class ResidentTokens(StoredReader):
    """Reads like a `StoredReader`, the same tokens (B, N, D), but from the device's memory.

    Args:
        store: Where all images' tokens are read from, once.
        device: Where they shall live.
        on_images: Told how many have just arrived.
    """

    def __init__(
        self, store: TokenStore, device: torch.device, on_images: Callable[[int], object] = lambda number: None
    ) -> None:
        super().__init__(store)
        images = store.key.images
        self.tokens = torch.empty(
            images, store.tokens, store.width, dtype=getattr(torch, store.key.dtype), device=device
        )
        rows = max(1, CHUNK_BYTES * images // max(size_of(store), 1))
        for start in range(0, images, rows):
            chunk = np.arange(start, min(start + rows, images))
            self.tokens[start : start + len(chunk)] = send(store.read(chunk), device)
            on_images(len(chunk))

    def batch(self, indices: Indices) -> Tensor:
        """The tokens at these positions, on the device, in memory of their own."""
        return self.tokens[send(torch.from_numpy(np.ascontiguousarray(indices)), self.tokens.device)]
