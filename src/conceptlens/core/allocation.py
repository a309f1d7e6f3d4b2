"""Large arrays of a training step in memory that the process keeps, instead of fresh pages for each of them."""

import contextlib
import ctypes
import sys
from collections.abc import Iterator

# glibc hands a block of more than 32 MB back to the system as soon as it is freed, and the next one costs a page fault
# for every 4 KB: on a CPU more time than the sums themselves (evidence/own-data).
TRIM_THRESHOLD, MMAP_MAX = -1, -4  # parameters of mallopt
KEPT = 2**30
USUAL = {TRIM_THRESHOLD: 128 * 2**10, MMAP_MAX: 65536}


@contextlib.contextmanager
def kept_memory(wanted: bool = True) -> Iterator[None]:
    """While it lasts, keep up to a gigabyte of freed memory; afterwards the system gets it back. Only with glibc."""
    library = _glibc() if wanted else None
    if library is None:
        yield
        return
    library.mallopt(MMAP_MAX, 0)
    library.mallopt(TRIM_THRESHOLD, KEPT)
    try:
        yield
    finally:
        for parameter, value in USUAL.items():
            library.mallopt(parameter, value)
        library.malloc_trim(0)


def _glibc() -> ctypes.CDLL | None:
    """The C library, if it is the one that knows these parameters."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  musl has none
    except (OSError, AttributeError):
        return None
    return library
