"""One thing at a time for each client, so that nobody fills a queue alone."""

from collections.abc import Callable
from typing import TypeVar

from conceptlens.web.server.problems import Problem
from conceptlens.web.server.work_queue import Lane

Made = TypeVar("Made")


class Turns:
    """Work in a lane, a piece at a time for whoever asks."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._now: set[str] = set()

    async def run(self, client: str, work: Callable[[], Made]) -> Made:
        """Do it, or refuse it with a 429 where this client already waits for something."""
        if client in self._now:
            raise Problem(429, "busy", "What you asked for before is not done yet. Wait for it.", wait=1)
        self._now.add(client)
        try:
            return await self._lane.run(work)
        finally:
            self._now.discard(client)
