"""Triton's interpreter, which needs no GPU but must be asked for before a kernel is made: in another process."""

import os
import subprocess
import sys

import pytest


def interpreted(code: str) -> str:
    """What the code prints, or the end of what went wrong."""
    pytest.importorskip("triton")
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr[-2000:]
