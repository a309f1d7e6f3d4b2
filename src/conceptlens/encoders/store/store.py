"""A token store: what enters an encoder's last blocks, computed once and read back by memory map.

A folder with `store.json` (what the tokens were made of) and `shard-00000.npy`, … of (rows, N, D) in half precision,
rows in the order of the data. A shard appears whole or not at all; one that is damaged counts as not there.
"""

from dataclasses import asdict, dataclass
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
SHARD_BYTES = 16 * 2**20
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
        self.rows = max(1, SHARD_BYTES // (tokens * width * 2))  # a shard
        self._maps: dict[int, npt.NDArray[Any]] = {}
        file = path / "store.json"
        if file.exists():
            self._check(read_json(file))

    def _check(self, found: dict[str, Any]) -> None:
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
        small = tokens.to(getattr(torch, self.key.dtype)).cpu()
        if not bool(torch.isfinite(small).all()):
            raise UserError(f"{self.path}: tokens of images {self.rows_of(shard)} do not fit in {self.key.dtype}.")
        buffer = BytesIO()
        # NumPy knows no bfloat16: the bits are kept as whole numbers.
        np.lib.format.write_array(buffer, small.view(torch.int16).numpy(), allow_pickle=False)
        write_bytes(self._file(shard), buffer.getvalue())
        self._maps.pop(shard, None)

    def read(self, positions: npt.NDArray[np.int64]) -> Tensor:
        """The tokens at these positions, (B, N, D), in half precision."""
        out = np.empty((len(positions), self.tokens, self.width), dtype=np.int16)
        for place, position in enumerate(positions.tolist()):
            shard, row = divmod(position, self.rows)
            out[place] = self._map(shard)[row]  # one copy of some 100 kB: indexing with an array would make two
        return torch.from_numpy(out).view(getattr(torch, self.key.dtype))

    def _map(self, shard: int) -> npt.NDArray[Any]:
        if shard not in self._maps:
            if not self.has(shard):
                raise UserError(f"{self._file(shard)} is missing or damaged. Run `conceptlens encode` again.")
            self._maps[shard] = np.load(self._file(shard), mmap_mode="r", allow_pickle=False)
        return self._maps[shard]
