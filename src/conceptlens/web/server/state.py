"""The state of a server that all routes share."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from conceptlens.web.schemas.runs import ErrorAnswer
from conceptlens.web.server.loaded import LoadedRun, ModelCache
from conceptlens.web.server.safety import Policy
from conceptlens.web.server.uploads import Limits
from conceptlens.web.server.work_queue import WorkQueues
from conceptlens.web.views.dataset.image_pass import ImagePasses
from conceptlens.web.views.dataset.places import MapPlaces
from conceptlens.web.views.dataset.sprites import SpriteSheets
from conceptlens.web.views.graphs import Graphs
from conceptlens.web.views.run_table import RunTable
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
        400: "The request cannot be understood",
        401: "A token is needed",
        403: "The request comes from another page or host",
        404: "There is no such thing",
        405: "The address does not take this method",
        408: "The request arrived too slowly",
        409: "The run has no such data, or is broken",
        413: "The request is too large",
        415: "The image format is not supported",
        422: "The request does not fit its schema",
        429: "Too many requests at once",
        500: "A bug in conceptlens",
        503: "The server is busy",
    }.items()
}


@dataclass
class ServerState:
    """Run folders, loaded models, work queues and limits of one server."""

    index: RunIndex
    model_cache: ModelCache
    queues: WorkQueues
    limits: Limits
    policy: Policy
    starts: tuple[str, ...] = ()  # commands that the page may start
    table: RunTable = field(default_factory=RunTable)
    graphs: Graphs = field(default_factory=Graphs)
    passes: ImagePasses = field(default_factory=ImagePasses)
    maps: MapPlaces = field(default_factory=MapPlaces)
    sprites: SpriteSheets = field(default_factory=SpriteSheets)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def loaded(self, run: str) -> LoadedRun:
        """A run with its model, by its key. Call it in a thread, as it may have to load the model."""
        return self.model_cache.get(self.index.of_kind(run, "bottleneck"))

    def look_later(self, loaded: LoadedRun) -> None:
        """Name the codes of a codebook once, in the background."""
        if loaded.looking:
            return
        loaded.looking = True

        async def work() -> None:
            await self.queues.sample.run(loaded.name_codes)

        task = asyncio.get_running_loop().create_task(work())
        self.tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not warn; images are explained without names of codes
