"""Images that live on the device: read once, then every batch is gathered there by index."""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.data.loading.loader import PixelReader
from conceptlens.data.loading.transfer import send, to_device

Indices = npt.NDArray[np.int64]
SHARE = 0.25  # of the device's free memory that images may take without being asked to
CHUNK = 256


def stays_resident(setting: Literal["auto"] | bool, images: int, size: int, device: torch.device) -> bool:
    """Whether so many images of `size` pixels a side shall live on the device: `data.resident`."""
    return fits_on(device, setting, images * 3 * size * size, f"{images:,} images of {size} pixels")


def fits_on(device: torch.device, setting: Literal["auto"] | bool, needed: int, what: str) -> bool:
    """Whether so many bytes shall live on the device.

    `auto`: on a GPU, where they take at most a quarter of its free memory.

    Raises:
        UserError: They shall, and there is no room.
    """
    if setting is False or (setting == "auto" and device.type != "cuda"):
        return False
    if device.type != "cuda":
        return True
    free = torch.cuda.mem_get_info(device)[0]
    if setting == "auto":
        return needed <= SHARE * free
    if needed > free:
        raise UserError(
            f"data.resident: {what} need {needed / 2**30:.1f} GB, {device} has {free / 2**30:.1f} GB left. Set "
            "data.resident to auto, or encoder.image_size lower."
        )
    return True


class ResidentReader:
    """Reads like a `PixelReader`, the same bytes, but from the device's memory.

    Args:
        reader: Where the images are read from, once.
        indices: Which of them; no others can be asked for.
        device: Where they shall live.
        on_images: Told how many have just arrived.
    """

    def __init__(
        self,
        reader: PixelReader,
        indices: Indices,
        device: torch.device,
        on_images: Callable[[int], object] = lambda number: None,
    ) -> None:
        kept = np.unique(indices)
        self._row = np.full(len(reader.source), -1, dtype=np.int64)
        self._row[kept] = np.arange(len(kept))
        self.pixels = torch.empty(len(kept), 3, reader.size, reader.size, dtype=torch.uint8, device=device)
        chunks = (kept[start : start + CHUNK] for start in range(0, len(kept), CHUNK))
        for chunk, pixels in to_device(reader.prefetch(chunks), device):
            first = int(self._row[chunk[0]])
            self.pixels[first : first + len(chunk)] = pixels
            on_images(len(chunk))

    def batch(self, indices: Indices) -> Tensor:
        """The images at these positions, (B, 3, S, S) of uint8, on the device, in memory of their own."""
        rows = self._row[indices]
        assert (rows >= 0).all(), "an image that was not read"
        return self.pixels[send(torch.from_numpy(rows), self.pixels.device)]

    def prefetch(self, batches: Iterable[Indices], ahead: int = 2) -> Iterator[tuple[Indices, Tensor]]:
        """Each batch with its pixels; there is nothing to wait for."""
        for indices in batches:
            yield indices, self.batch(indices)
