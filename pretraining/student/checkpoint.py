"""A small checkpoint: weights in fp32, Adam's moments in bf16, in files of at most 15 MB, whole or not there at all.

The running moments are rounded the same way when a checkpoint is written, so a run that goes on and one that is
resumed are the same.
"""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from conceptlens.core.errors import UserError
from conceptlens.core.files import new_folder, read_json, write_json

LIMIT = 15_000_000


def _state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    state = {f"weight.{name}": value for name, value in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state[parameter].items():
            if value.ndim and value.shape == parameter.shape:
                value.copy_(value.bfloat16())
                state[f"{key}.{name}"] = value.bfloat16()
            else:
                state[f"{key}.{name}"] = value
    return state


def _parts(state: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    parts: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, value in state.items():
        if size + value.nbytes > LIMIT and parts[-1]:
            parts.append({})
            size = 0
        parts[-1][name] = value.detach().cpu().contiguous().clone()
        size += value.nbytes
    return parts


def save(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, extra: dict[str, Tensor], note: Any) -> None:
    """Write a checkpoint; `extra` are further tensors (the teachers' statistics), `note` is JSON (step, settings)."""
    state = _state(model, optimizer) | {f"extra.{name}": value for name, value in extra.items()}
    with new_folder(folder) as place:
        parts = _parts(state)
        for index, part in enumerate(parts):
            save_file(part, place / f"part-{index}.safetensors")
        write_json(place / "note.json", {"schema": 1, "parts": len(parts), **note})


def read(folder: Path, prefix: str) -> dict[str, Tensor]:
    """The tensors of a checkpoint whose names begin with `prefix`, without it."""
    state: dict[str, Tensor] = {}
    for index in range(int(read_json(folder / "note.json")["parts"])):
        state |= load_file(folder / f"part-{index}.safetensors")
    return {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}


@torch.no_grad()
def load(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    """Fill the model and the optimizer; returns the note."""
    state = read(folder, "")
    weights = {name.removeprefix("weight."): value for name, value in state.items() if name.startswith("weight.")}
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"{folder}: this checkpoint is of another network: {error}") from None
    for name, parameter in model.named_parameters():
        if f"step.{name}" not in state:
            continue  # saved before the first step
        # In the parameter's own memory format, and the step beside it: a fused optimizer asks for both.
        moments = {key: torch.zeros_like(parameter).copy_(state[f"{key}.{name}"]) for key in ("exp_avg", "exp_avg_sq")}
        where = parameter.device if optimizer.defaults.get("fused") else "cpu"
        optimizer.state[parameter] = {"step": state[f"step.{name}"].to(where), **moments}
    return read_json(folder / "note.json")
