"""The encoder alone, in half precision, with the hash that is checked when it is loaded."""

import hashlib
from pathlib import Path

from safetensors.torch import save

from conceptlens.core.files import write_bytes, write_json
from conceptlens.encoders.contract import Encoder


def export(encoder: Encoder, path: Path) -> None:
    """Write `path` and, beside it, its JSON with size, number of parameters and SHA-256."""
    weights = {name: value.detach().half().cpu().contiguous() for name, value in encoder.state_dict().items()}
    data = save(weights)
    write_bytes(path, data)
    note = {
        "schema": 1,
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "parameters": sum(value.numel() for value in weights.values()),
    }
    write_json(path.with_suffix(".json"), note)
