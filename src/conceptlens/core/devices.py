"""Where the work is done: the GPU where there is one, unless the user says otherwise (`--device`)."""

import os

import torch

from conceptlens.core.errors import UserError

VARIABLE = "CONCEPTLENS_DEVICE"  # inherited by processes that a command starts


def best_device() -> torch.device:
    """The device that the user named, or the GPU where there is one."""
    name = os.environ.get(VARIABLE)
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"--device {name}: expected cpu, cuda or cuda:N.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"--device {name}: this machine has no CUDA device. Use --device cpu.")
    if device.type == "mps":
        raise UserError(
            f"--device {name}: a Mac's GPU is not supported: it lacks float64, which exact sums and solvers here need. "
            "Use --device cpu."
        )
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"--device {name}: expected cpu, cuda or cuda:N; {device.type} is not supported.")
    return device
