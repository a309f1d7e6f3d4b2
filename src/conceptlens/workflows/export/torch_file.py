"""The graph as torch's own archive, `.pt2`: a zip of the graph as JSON and the weights as plain bytes."""

import io

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.export import ExportedProgram

Outputs = dict[str, npt.NDArray[np.float32]]


def to_torch(program: ExportedProgram) -> bytes:
    """The whole file."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    return buffer.getvalue()


class TorchFile:
    """A file that was just made, read back as its users will read it."""

    def __init__(self, data: bytes) -> None:
        self.model = torch.export.load(io.BytesIO(data)).module()

    def __call__(self, images: Tensor) -> Outputs:
        """Outputs by name for bytes (B, 3, S, S)."""
        with torch.no_grad():
            return {name: value.numpy() for name, value in self.model(images).items()}
