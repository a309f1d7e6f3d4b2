"""Teachers' weights on disk: safetensors in half precision, which no reader has to run or unpickle."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.core.files import write_bytes


def write_weights(path: Path, state: Mapping[str, Tensor], *, source: str) -> None:
    """Write a state as fp16, whole or not at all; a value that fp16 cannot hold is an error, not infinity."""
    halves = {name: value.to(torch.float16).contiguous() for name, value in state.items()}
    beyond = [name for name, value in halves.items() if not torch.isfinite(value).all()]
    if beyond:
        raise UserError(f"{path.name}: {beyond[0]} holds values that half precision cannot; is the source damaged?")
    write_bytes(path, save(halves, metadata={"source": source, "name": path.stem}))


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file."""
    try:
        weights: dict[str, Tensor] = load_file(path)
    except OSError:
        raise UserError(f"{path}: no such file. `python -m pretraining.teachers.convert --help` makes it.") from None
    except SafetensorError as error:
        raise UserError(f"{path}: expected a safetensors file, but {error}.") from None
    return weights


def fill(model: nn.Module, weights: Mapping[str, Tensor], path: Path) -> None:
    """Put weights into a model and bring it to rest: eval mode, no gradients, the model's own precision."""
    try:
        model.load_state_dict(dict(weights))
    except RuntimeError as error:
        raise UserError(f"{path}: does not fit {type(model).__name__}: {str(error).splitlines()[-1].strip()}") from None
    model.eval().requires_grad_(False)
