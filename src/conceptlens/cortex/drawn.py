"""Samples on disk as they are drawn: sampling that was stopped goes on where it was.

Every chunk is a hidden file whose folder's name is a hash of all that decides the draws: other settings are in another
folder.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import save as serialize
from torch import Tensor

from conceptlens.core.files import fingerprint, write_bytes
from conceptlens.core.plugins import is_code, parse_code
from conceptlens.cortex.generators.contract import VQModel, check_tokens
from conceptlens.encoders.freezing import weights_hash
from conceptlens.encoders.weights_file import read_weights

PREFIX = ".drawn-"


class Drawn:
    """Chunks of token grids of one model.

    Args:
        place: A folder to keep them in; None keeps nothing.
        model: What draws them.
        settings: What else decides the draws: conditions, seed, sizes.
    """

    def __init__(self, place: Path | None, model: VQModel, **settings: Any) -> None:
        self.folder, self.codes = None, len(model.codebook)
        if place is not None:
            about = {
                "model": absolute_name(model.name),
                "weights": weights_hash(model),
                "sampling": asdict(model.sampling),
            }
            key = fingerprint(json.dumps({**about, **settings}, sort_keys=True))
            self.folder = place / f"{PREFIX}{key}"

    def has(self, index: int) -> bool:
        """Whether a chunk was drawn and kept."""
        return self.folder is not None and self._file(self.folder, index).exists()

    @staticmethod
    def _file(folder: Path, index: int) -> Path:
        return folder / f"{index:06d}.safetensors"

    def chunk(self, index: int, draw: Callable[[], Tensor]) -> Tensor:
        """A chunk as it was drawn before, or drawn now and kept."""
        if self.folder is None:
            return draw()
        path = self._file(self.folder, index)
        if path.exists():
            tokens = read_weights(path)["tokens"]
            check_tokens(tokens, self.codes)
            return tokens
        tokens = draw()
        write_bytes(path, serialize({"tokens": tokens.contiguous()}))
        return tokens

    def clear(self) -> None:
        """Remove what was kept: it is in another file by now."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def absolute_name(name: str) -> str:
    """A model's name with the absolute path of its file, folder or code, if it names one: the same in every process."""
    if is_code(name):
        return str(parse_code(name))
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name
