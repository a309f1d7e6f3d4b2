"""A token store: what enters an encoder's last blocks, computed once and read back by memory map.

A folder with `store.json` (what the tokens were made of) and `shard-00000.npy`, … of (rows, N, D) in half precision,
rows in the order of the data. A shard appears whole or not at all; one that is damaged counts as not there. Shards grow
with the store, so that there are about a thousand of them, and only the last few that were read stay open.
"""

from dataclasses import asdict, dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_bytes, write_json
from conceptlens.encoders.contract import Cut

Dtype = Literal["float16", "bfloat16"]
SHARD_BYTES = 16 * 2**20  # of a small store
LARGEST_SHARD = 256 * 2**20  # a process that encodes holds two of them
SHARDS = 1024  # above so many, shards grow
OPEN = 128  # maps that stay open; each one holds a file
HEADER = 128  # bytes of a .npy header, as NumPy writes it for shapes of this kind


@dataclass(frozen=True)
class Key:
    """What the tokens depend on: with another key, they are others."""

    encoder: str
    weights: str  # hash
    blocks: int  # behind the cut
    image_size: int
    fit: str
    data: str  # fingerprint of names and labels
    pixels: str  # fingerprint of some of the images, as the encoder gets them
    images: int
    precision: str  # in which they were computed
    dtype: Dtype


class TokenStore:
    """Stored tokens of N images.

    Args:
        path: The folder.
        key: What the tokens must have been made of; a store of another key is refused.
        tokens: Tokens an image.
        width: D.
        grid: Of the patches among them.
    """

    def __init__(self, path: Path, key: Key, tokens: int, width: int, grid: tuple[int, int]) -> None:
        self.path, self.key, self.tokens, self.width = path, key, tokens, width
        self.cut = Cut(key.blocks, grid)
        self.rows = rows_per_shard(key.images, tokens * width * 2)
        self._map = lru_cache(maxsize=OPEN)(self._open)
        self._checked: set[int] = set()  # shards that were as they had been written when they were first opened
        file = path / "store.json"
        if file.exists():
            self._check(read_json(file))

    def _check(self, found: dict[str, Any]) -> None:
        rows = found.get("rows")
        if isinstance(rows, int) and rows > 0:
            self.rows = rows  # as it was begun: earlier versions had other shards
        for name, value in {**asdict(self.key), "rows": self.rows}.items():
            if found.get(name) != value:
                raise UserError(
                    f"{self.path}: these tokens were stored with {name} {found.get(name)!r}, now it is {value!r}. "
                    "Name another folder in encoder.store, or delete this one."
                )

    def begin(self) -> None:
        """Make the folder and say what it is of."""
        self.path.mkdir(parents=True, exist_ok=True)
        manifest.begin(self.path)
        write_json(self.path / "store.json", {**asdict(self.key), "rows": self.rows, "grid": list(self.cut.grid)})

    @property
    def shards(self) -> int:
        return -(-self.key.images // self.rows)

    def rows_of(self, shard: int) -> range:
        """Positions of a shard's images."""
        return range(shard * self.rows, min((shard + 1) * self.rows, self.key.images))

    def _file(self, shard: int) -> Path:
        return self.path / f"shard-{shard:05d}.npy"

    def has(self, shard: int) -> bool:
        """Whether a shard is there, whole and as it was written."""
        file, size = self._file(shard), HEADER + len(self.rows_of(shard)) * self.tokens * self.width * 2
        try:
            manifest.check(file)
            return file.is_file() and file.stat().st_size == size
        except UserError:
            return False

    def write(self, shard: int, tokens: Tensor) -> None:
        """Write a shard's tokens (rows, N, D)."""
        small = tokens.to(getattr(torch, self.key.dtype)).cpu().contiguous()
        if not bool(torch.isfinite(small).all()):
            raise UserError(f"{self.path}: tokens of images {self.rows_of(shard)} do not fit in {self.key.dtype}.")
        bits = small.view(torch.int16).numpy()  # NumPy knows no bfloat16: they are kept as whole numbers
        header = BytesIO()
        np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(bits))
        write_bytes(self._file(shard), header.getvalue(), bits.data)  # no copy of what may be 256 MB
        self._checked.discard(shard)
        self._map.cache_clear()

    def read(self, positions: npt.NDArray[np.int64]) -> Tensor:
        """The tokens at these positions, (B, N, D), in half precision."""
        out = np.empty((len(positions), self.tokens, self.width), dtype=np.int16)
        shards, rows = np.divmod(positions, self.rows)
        for place in np.argsort(shards, kind="stable").tolist():  # a shard is opened once a batch, if at all
            out[place] = self._map(int(shards[place]))[rows[place]]  # one copy: indexing with an array would make two
        return torch.from_numpy(out).view(getattr(torch, self.key.dtype))

    def _open(self, shard: int) -> npt.NDArray[Any]:
        file = self._file(shard)
        if shard not in self._checked:
            if not self.has(shard):
                raise UserError(f"{file} is missing or damaged. Run `conceptlens encode` again.")
            self._checked.add(shard)
        shape = (len(self.rows_of(shard)), self.tokens, self.width)
        return np.memmap(file, np.int16, "r", HEADER, shape)


def rows_per_shard(images: int, bytes_each: int) -> int:
    """Images a shard: 16 MB of them in a small store, more in a large one, so that it does not fall into many files."""
    wanted = max(SHARD_BYTES, min(LARGEST_SHARD, images * bytes_each // SHARDS))
    return max(1, wanted // bytes_each)
