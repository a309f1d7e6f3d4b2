"""Matrices at one byte a number: each row has a scale of its own, so that rare words keep their detail."""

from collections.abc import Mapping

import torch
from torch import Tensor

SCALE = ".scale"
STEPS = 127


def quantize(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """(R, C) → int8 (R, C) and the rows' steps, fp32 (R,); the error is at most half a step."""
    steps = (matrix.abs().amax(1) / STEPS).clamp(min=torch.finfo(torch.float32).tiny)  # a row of zeros stays one
    return (matrix / steps[:, None]).round().to(torch.int8), steps


def dequantize(rows: Tensor, steps: Tensor) -> Tensor:
    """fp32 (R, C)."""
    return rows.float() * steps[:, None]


def pack(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A module's state with its matrices as int8 rows; vectors (norms, biases) stay fp32, they weigh nothing."""
    packed: dict[str, Tensor] = {}
    for name, value in state.items():
        if value.ndim == 2:
            packed[name], packed[name + SCALE] = quantize(value.detach().float().cpu())
        else:
            packed[name] = value.detach().float().cpu()
    return packed


def unpack(packed: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state that `pack` was given, all fp32."""
    return {
        name: dequantize(value, packed[name + SCALE]) if name + SCALE in packed else value.float()
        for name, value in packed.items()
        if not name.endswith(SCALE)
    }
