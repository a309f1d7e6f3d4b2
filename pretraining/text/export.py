"""The trained tower as the package keeps it: int8 rows and vocabulary in one file, sizes and hash in another."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from conceptlens.core.files import write_bytes, write_json
from conceptlens.encoders.text.builtin import PIECES
from conceptlens.encoders.text.int8_rows import pack
from conceptlens.encoders.text.tower import TextTower


def export_tower(folder: Path, tower: TextTower, pieces: Sequence[str], about: Mapping[str, Any]) -> Path:
    """Write text.safetensors and text.json to `folder`; `about` goes into the JSON."""
    state = pack(tower.state_dict())
    state[PIECES] = torch.frombuffer(bytearray("\n".join(pieces).encode()), dtype=torch.uint8)
    data = save(state)
    path = folder / "text.safetensors"
    write_bytes(path, data)
    write_json(
        path.with_suffix(".json"),
        {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data), "tower": tower.sizes, **about},
    )
    return path
