"""From the machine's memory to the device's, so that neither waits for the other."""

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Indices = npt.NDArray[np.int64]
Moved = tuple[Indices, Tensor, torch.cuda.Event]


def send(values: Tensor, device: torch.device) -> Tensor:
    """A tensor of the machine's memory on the device. A copy to a GPU is only ordered here: it happens in its turn."""
    # From ordinary memory, a GPU would first finish everything that it was asked to do before.
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values.to(device)


def fetch(values: Tensor) -> Tensor:
    """A tensor in the machine's memory. From a GPU the copy is only ordered: an event says when it has happened."""
    return values.detach().to("cpu", non_blocking=values.is_cuda)


def to_device(
    batches: Iterator[tuple[Indices, Tensor]], device: torch.device, ahead: int = 2
) -> Generator[tuple[Indices, Tensor]]:
    """Each batch on the device, if it is not there already; a GPU gets up to `ahead` of them while it works.

    What `batches` raises is raised where its batch is awaited. The thread in the background ends with the iterator.
    """
    if device.type != "cuda":
        try:
            for indices, values in batches:
                yield indices, values.to(device)
        finally:
            if isinstance(batches, Generator):  # since Python 3.12, closing one generator does not end what it reads
                batches.close()
        return
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def fetch() -> Moved | None:
        found = next(batches, None)
        if found is None:
            return None
        indices, values = found
        with torch.cuda.stream(stream):
            moved = values if values.is_cuda else send(values, device)
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record(stream)
        return indices, moved, arrived

    copier = ThreadPoolExecutor(1, "conceptlens-copy")
    waiting: deque[Future[Moved | None]] = deque(copier.submit(fetch) for _ in range(ahead))
    try:
        while (ready := waiting.popleft().result()) is not None:
            waiting.append(copier.submit(fetch))
            indices, moved, arrived = ready
            working = torch.cuda.current_stream(device)
            working.wait_event(arrived)
            moved.record_stream(working)  # its memory is not given away before the work on it is done
            yield indices, moved
    finally:
        copier.shutdown(wait=True, cancel_futures=True)
        if isinstance(batches, Generator):
            batches.close()
