"""A limit of one request at a time for each client, so that no client fills a queue alone."""

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
