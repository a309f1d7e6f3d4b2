"""Work queues: slow work waits only for other slow work. Each queue has a few threads and a limit."""

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread

from conceptlens.web.server.problems import Problem

P = ParamSpec("P")
T = TypeVar("T")


class WorkQueue:
    """At most `at_once` calls run at a time, and at most `waiting` calls wait."""

    def __init__(self, at_once: int, waiting: int, *, full: int = 503) -> None:
        """`full` is the HTTP status of the answer when the queue is full."""
        self._limiter, self._full = anyio.CapacityLimiter(at_once), full
        self._limit, self._size = at_once + waiting, 0

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work` in a thread of this queue, or refuse it if the queue is full."""
        if self._size >= self._limit:
            raise Problem(self._full, "busy", "Too many requests are waiting. Try again in a moment.", wait=1)
        self._size += 1
        try:
            return await anyio.to_thread.run_sync(partial(work, *args, **kwargs), limiter=self._limiter)
        finally:
            self._size -= 1


class WorkQueues:
    """One queue for each kind of work."""

    def __init__(self) -> None:
        self.model = WorkQueue(1, 64)  # passes through a model
        self.head = WorkQueue(2, 256)  # what-if: small matrix products
        self.files = WorkQueue(4, 512)  # run folders and pictures
        self.sprites = WorkQueue(1, 64)  # sheets of small pictures: a thousand files each
        self.decode = WorkQueue(1, 32)  # uploads, which may be slow to decode
        self.sample = WorkQueue(1, 16)  # passes over many images
        self.studio = WorkQueue(1, 12, full=429)  # a generator: decode, mask, importance
        self.edits = WorkQueue(1, 5, full=429)  # searches, as long as their budget
