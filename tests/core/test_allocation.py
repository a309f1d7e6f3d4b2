"""Freed memory is kept while a training lasts, and the system gets it back."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from conceptlens.core import allocation
from conceptlens.core.allocation import kept_memory

resource = pytest.importorskip("resource")


def faults(steps: int = 8) -> int:
    """Pages that the system had to hand out for arrays of 40 MB that come and go."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        torch.ones(10 * 2**20).add_(1)
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)


@pytest.mark.skipif(not sys.platform.startswith("linux") or allocation._glibc() is None, reason="glibc only")
def test_large_arrays_cost_their_pages_once() -> None:
    fresh = faults()
    with kept_memory():
        faults(1)
        kept = faults()
    assert kept < fresh / 4
    assert faults() > 2 * kept  # as before


def test_threads_get_large_arrays_too() -> None:
    with kept_memory(), ThreadPoolExecutor(1) as pool:
        assert float(pool.submit(lambda: torch.ones(40 * 2**20).sum()).result()) == 40 * 2**20  # 160 MB


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "_glibc", lambda: None)
    with kept_memory():
        pass
    with kept_memory(wanted=False):
        pass
