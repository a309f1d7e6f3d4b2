"""GPU kernels of our own, where they can be used: what goes wrong with one is told once, then torch takes over."""

import warnings
from collections.abc import Callable
from typing import TypeVar

import torch

Found = TypeVar("Found")
failures: dict[str, str] = {}  # why a kernel is not used though there is a GPU, by its name


def attempt(name: str, work: Callable[[], Found | None]) -> Found | None:
    """What the kernel's work gives, which imports it; None where it failed, now or before, or is not made for this."""
    if name in failures:
        return None
    try:
        return work()
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as error:  # no compiler for this GPU, or one that does not know it: there are many ways
        failures[name] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        warnings.warn(f"{name}'s GPU kernel cannot be used, torch takes over: {failures[name]}", stacklevel=2)
        return None
