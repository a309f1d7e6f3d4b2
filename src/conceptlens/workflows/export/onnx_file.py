"""The graph as ONNX, for runtimes without Python; needs the extra `onnx`."""

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor
from torch.export import ExportedProgram

from conceptlens.core.errors import UserError
from conceptlens.workflows.export.graph import INPUT
from conceptlens.workflows.export.torch_file import Outputs

PACKAGES = ("onnx", "onnxscript", "onnxruntime")  # the last one runs the file once, to compare it with the model
LARGEST = 2**31 - 2**20  # bytes of weights: an ONNX file ends at two gigabytes


def need_onnx() -> None:
    """Refuse before the work where a package is missing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"--format onnx needs {' and '.join(missing)}. Install: pip install 'conceptlens[onnx]', "
            "or use --format torch."
        )


def to_onnx(program: ExportedProgram, outputs: Sequence[str]) -> bytes:
    """The whole file, weights inside."""
    import torch.onnx

    weights = sum(value.numel() * value.element_size() for value in program.state_dict.values())
    if weights > LARGEST:
        raise UserError(f"The weights take {weights / 1e9:.1f} GB, and an ONNX file ends at 2 GB. Use --format torch.")
    made: Any = torch.onnx.export(
        program, input_names=[INPUT], output_names=list(outputs), dynamo=True, verbose=False, external_data=False
    )
    data: bytes = made.model_proto.SerializeToString()
    return data


class OnnxFile:
    """A file that was just made, run as its users will run it."""

    def __init__(self, data: bytes) -> None:
        import onnxruntime

        self.session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        self.outputs = [each.name for each in self.session.get_outputs()]

    def __call__(self, images: Tensor) -> Outputs:
        """Outputs by name for bytes (B, 3, S, S)."""
        found = self.session.run(self.outputs, {INPUT: images.numpy()})
        return {name: np.asarray(value) for name, value in zip(self.outputs, found, strict=True)}
