"""Sheets of small pictures: a thousand images of a split in one JPEG, made when first asked for and kept in memory."""

import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
from PIL import Image

from conceptlens.core.errors import UserError
from conceptlens.data.images.read import resize_square
from conceptlens.pages.pictures import encode_image
from conceptlens.web.server.loaded import LoadedRun
from conceptlens.web.server.problems import not_found

SIDE = 40  # pixels of a sprite
ACROSS = 32
COUNT = ACROSS * ACROSS  # sprites of a sheet
MOST = 128  # sheets kept: some 15 MB
THREADS = 4


class SpriteSheets:
    """The sheets of a server. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, int], bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, loaded: LoadedRun, split: str, sheet: int) -> bytes:
        """Sheet `sheet` of a split: its images from `sheet * COUNT` on, row by row."""
        key = (loaded.card.weights_hash + str(loaded.entry.path), split, sheet)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = draw_sheet(loaded, split, sheet)
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > MOST:
                self._kept.popitem(last=False)
        return made


def draw_sheet(loaded: LoadedRun, split: str, sheet: int) -> bytes:
    """A JPEG; an image that cannot be read stays gray."""
    source = loaded.source
    indices = loaded.opened.splits[split][sheet * COUNT : (sheet + 1) * COUNT].tolist()
    if not indices:
        raise not_found(f"{split} has no sheet {sheet} of sprites.")

    def small(index: int) -> npt.NDArray[np.uint8] | None:
        try:
            return resize_square(source.read_at_least(index, SIDE), SIDE, loaded.card.fit).transpose(1, 2, 0)
        except UserError:
            return None

    rows = (len(indices) + ACROSS - 1) // ACROSS
    pixels = np.full((rows * SIDE, ACROSS * SIDE, 3), 128, np.uint8)
    with ThreadPoolExecutor(THREADS) as pool:
        for place, sprite in enumerate(pool.map(small, indices)):
            if sprite is not None:
                y, x = place // ACROSS * SIDE, place % ACROSS * SIDE
                pixels[y : y + SIDE, x : x + SIDE] = sprite
    return encode_image(Image.fromarray(pixels), "JPEG", quality=82)
