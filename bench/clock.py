"""How benches take the time."""

import time
from collections.abc import Callable
from typing import Any

import torch


def best(work: Callable[[], Any], repeats: int, device: str = "cpu") -> tuple[float, Any]:
    """Smallest wall time in seconds, and the last result."""
    seconds, result = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        result = work()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = min(seconds, time.perf_counter() - start)
    return seconds, result
