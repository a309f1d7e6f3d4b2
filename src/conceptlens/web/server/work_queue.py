"""Lanes for work, so that slow work waits behind slow work only: each has a few threads and a queue that ends."""

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import anyio
import anyio.to_thread

from conceptlens.web.server.problems import Problem

Given = ParamSpec("Given")
Made = TypeVar("Made")


class Lane:
    """At most `at_once` pieces of work at a time, and `queue` that wait."""

    def __init__(self, at_once: int, queue: int, *, full: int = 503) -> None:
        """`full`: the status of the answer where no more may wait."""
        self._limiter, self._full = anyio.CapacityLimiter(at_once), full
        self._most, self._inside = at_once + queue, 0

    async def run(self, work: Callable[Given, Made], *args: Given.args, **options: Given.kwargs) -> Made:
        """Do work in a thread of this lane; refuse it where too much waits already."""
        if self._inside >= self._most:
            raise Problem(self._full, "busy", "Too many requests wait for this. Try again in a moment.", wait=1)
        self._inside += 1
        try:
            return await anyio.to_thread.run_sync(partial(work, *args, **options), limiter=self._limiter)
        finally:
            self._inside -= 1


class Lanes:
    """One for each kind of work."""

    def __init__(self) -> None:
        self.model = Lane(1, 64)  # passes through a model
        self.head = Lane(2, 256)  # what-if: small sums
        self.files = Lane(4, 512)  # run folders and pictures
        self.decode = Lane(1, 32)  # uploads: what strangers send may be slow to decode
        self.sample = Lane(1, 16)  # looks at many images
        self.studio = Lane(1, 12, full=429)  # a generator's small questions: decode, mask, importance
        self.edits = Lane(1, 5, full=429)  # searches that take as long as their budget
