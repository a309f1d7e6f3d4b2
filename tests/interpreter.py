"""Triton's interpreter, which needs no GPU but must be asked for before a kernel is made: in another process."""

import os
import subprocess
import sys

import pytest

# Up to 3.8 the interpreter hands `int` the array of one number that it keeps for a scalar; numpy 2.5 refuses that.
SCALARS = """
from triton.runtime import interpreter
_patch = interpreter._patch_lang_tensor
def _patch_scalars(tensor, *scope):
    _patch(tensor, *scope)
    tensor.__index__ = lambda self: int(self.handle.data.reshape(-1)[0])
interpreter._patch_lang_tensor = _patch_scalars
"""


def interpreted(code: str) -> str:
    """What the code prints, or the end of what went wrong."""
    pytest.importorskip("triton")
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", SCALARS + code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr[-2000:]
