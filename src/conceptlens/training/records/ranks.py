"""The rank of the patch matrix while it trains. A GPU does not wait for the eigenvalues: a thread computes them."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from conceptlens.stats.rank import patch_ranks

Means = dict[str, float]


def mean_ranks(patches: Tensor) -> Means:
    """Mean `published` and `effective` rank of patches (B, L, D)."""
    ranks = patch_ranks(patches, ("published", "effective"))
    return {name: float(values.float().mean()) for name, values in ranks.items()}


class RankTracker:
    """Measures now and then, and reports in order; `settle` before anything is written that must come later."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._pending: tuple[Future[Means], Callable[[Means], None]] | None = None

    def measure(self, patches: Tensor, report: Callable[[Means], None]) -> None:
        """Measure patches (B, L, D); `report` is called with the means, on this thread, now or by `settle`."""
        self.settle()
        if patches.device.type != "cuda":
            report(mean_ranks(patches))
            return
        here = torch.empty(patches.shape, dtype=patches.dtype, pin_memory=True)
        here.copy_(patches.detach(), non_blocking=True)
        arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
        arrived.record()

        def work() -> Means:
            arrived.synchronize()
            return mean_ranks(here)

        self._thread = self._thread or ThreadPoolExecutor(1, "conceptlens-ranks")
        self._pending = self._thread.submit(work), report

    def settle(self) -> None:
        """Wait for what is being measured, and report it."""
        if self._pending is not None:
            (future, report), self._pending = self._pending, None
            report(future.result())

    def close(self) -> None:
        """End the thread; what it was still measuring is dropped."""
        self._pending = None
        if self._thread is not None:
            self._thread.shutdown(wait=True, cancel_futures=True)
            self._thread = None
