"""Freed memory is kept while a training lasts, and the system gets it back."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from conceptlens.core import allocation
from conceptlens.core.allocation import kept_memory

# In a process of its own: in this one other tests have left holes in the heap, where large arrays may find room.
SCRIPT = """
import resource
import numpy
from conceptlens.core.allocation import kept_memory

def faults(steps):  # pages that the system had to hand out for arrays of 40 MB that come and go
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(steps):
        numpy.ones(5 * 2**20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

fresh = faults(8)
with kept_memory():
    faults(1)
    kept = faults(8)
print(fresh, kept, faults(8))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux") or allocation._glibc() is None, reason="glibc only")
def test_large_arrays_cost_their_pages_once() -> None:
    printed = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
    fresh, kept, after = map(int, printed.split())
    assert kept < fresh / 4
    assert after > 2 * kept + 100  # as before


def test_threads_get_large_arrays_too() -> None:
    with kept_memory(), ThreadPoolExecutor(1) as pool:
        assert float(pool.submit(lambda: torch.ones(40 * 2**20).sum()).result()) == 40 * 2**20  # 160 MB


def test_without_glibc_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "_glibc", lambda: None)
    with kept_memory():
        pass
    with kept_memory(wanted=False):
        pass
