"""What the routes share."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from conceptlens.web.schemas.runs import ErrorAnswer
from conceptlens.web.server.loaded import LoadedRun, Shelf
from conceptlens.web.server.safety import Policy
from conceptlens.web.server.uploads import Limits
from conceptlens.web.server.work_queue import Lanes
from conceptlens.web.views.graphs import Graphs
from conceptlens.web.views.runs import RunIndex

Responses = dict[int | str, dict[str, Any]]
BINARY = {"schema": {"type": "string", "format": "binary"}}
JPEG: Responses = {200: {"content": {"image/jpeg": BINARY}, "description": "JPEG"}}
PNG: Responses = {200: {"content": {"image/png": BINARY}, "description": "PNG"}}
UPLOAD = {"requestBody": {"required": True, "content": {"application/octet-stream": BINARY}}}
ERRORS: Responses = {304: {"description": "Not changed"}}
ERRORS |= {
    status: {"model": ErrorAnswer, "description": words}
    for status, words in {
        400: "Means nothing",
        401: "Token needed",
        403: "From another page or host",
        404: "No such thing",
        405: "Not with this method",
        408: "Came too slowly",
        409: "The run has no such data, or is broken",
        413: "Too large",
        415: "Not a format that is read",
        422: "Another shape than its schema",
        429: "Too much at once",
        500: "A bug",
        503: "Busy",
    }.items()
}


@dataclass
class Site:
    """One server."""

    index: RunIndex
    shelf: Shelf
    lanes: Lanes
    limits: Limits
    policy: Policy
    graphs: Graphs = field(default_factory=Graphs)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def loaded(self, run: str) -> LoadedRun:
        """A run with its model, by its key. Not for the event loop: it may have to load it."""
        return self.shelf.get(self.index.of_kind(run, "bottleneck"))

    def look_later(self, loaded: LoadedRun) -> None:
        """Find out what codes stand for, once, while others are served."""
        if loaded.looking:
            return
        loaded.looking = True

        async def work() -> None:
            await self.lanes.sample.run(loaded.name_codes)

        task = asyncio.get_running_loop().create_task(work())
        self.tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # seen: names of codes are a help, an image is explained without them
