"""Limits for each client, so that none takes everything: one request at a time in a queue; so many things an hour."""

import time
from collections.abc import Callable
from typing import TypeVar

from conceptlens.web.server.problems import Problem
from conceptlens.web.server.work_queue import WorkQueue

T = TypeVar("T")


class ClientLimit:
    """A work queue in which each client has at most one call."""

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._clients: set[str] = set()

    async def run(self, client: str, work: Callable[[], T]) -> T:
        """Run `work`, or refuse it with 429 if another call of this client is running."""
        if client in self._clients:
            raise Problem(429, "busy", "Your previous request is still running. Wait until it is done.", wait=1)
        self._clients.add(client)
        try:
            return await self._queue.run(work)
        finally:
            self._clients.discard(client)


class Allowance:
    """At most `most` of something within `seconds` for each client. Safe to use from one thread at a time."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._taken: dict[tuple[str, ...], list[float]] = {}

    def left(self, *client: str) -> int:
        """How many there still are; `client` may name what is counted as well."""
        now = self._clock()
        self._taken = {
            key: recent
            for key, times in self._taken.items()
            if (recent := [time for time in times if now - time < self._seconds])
        }
        return self._most - len(self._taken.get(client, []))

    def take(self, *client: str) -> None:
        self._taken.setdefault(client, []).append(self._clock())
