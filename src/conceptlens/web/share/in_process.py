"""The page's own application, asked without a network: what a shared file answers is what the server would."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.types import ASGIApp, Message

from conceptlens.web.server.app import application
from conceptlens.web.server.folders import RunEntry, RunFolders
from conceptlens.web.server.loaded import LoadedRun, ModelCache
from conceptlens.web.server.safety import Policy
from conceptlens.web.server.state import ServerState
from conceptlens.web.server.uploads import Limits
from conceptlens.web.server.work_queue import WorkQueues
from conceptlens.web.views.runs import RunIndex

API = "/api/v1"


class OneFolder(RunFolders):
    """A single result folder, called by its name alone: the path stays private."""

    def _look(self) -> Iterator[RunEntry]:
        entry = next(iter(super()._look()))
        yield replace(entry, shown=entry.path.name)


@dataclass(frozen=True)
class Told:
    """An answer of the server."""

    status: int
    body: Any

    @property
    def ok(self) -> bool:
        return self.status < 400

    @property
    def reason(self) -> str:
        """Why it is none."""
        return str(self.body["error"]["message"])


@dataclass(frozen=True)
class Inside:
    """The application of one folder; `open_inside` makes it."""

    state: ServerState
    entry: RunEntry
    app: ASGIApp
    portal: BlockingPortal  # to a loop in a thread of its own: whoever calls may have one already

    @property
    def run(self) -> str:
        """The address of the folder."""
        return f"runs/{self.entry.key}"

    def loaded(self) -> LoadedRun:
        """The run with its model."""
        return self.state.loaded(self.entry.key)

    def get(self, address: str) -> Told:
        """Ask for an address below `api/v1`, such as `runs/demo/head`."""
        status, _, content = self.file(address)
        return Told(status, json.loads(content))

    def file(self, address: str) -> tuple[int, str, bytes]:
        """The status, type and content of any address."""
        return self.portal.call(_get, self.app, f"{API}/{address}")


@contextmanager
def open_inside(folder: Path) -> Iterator[Inside]:
    """The application of one folder, for as long as it is asked."""
    folders = OneFolder([folder])
    state = ServerState(RunIndex(folders), ModelCache(1), WorkQueues(), Limits(), Policy())
    with start_blocking_portal() as portal:
        yield Inside(state, folders.all()[0], application(state), portal)


async def _get(app: ASGIApp, address: str) -> tuple[int, str, bytes]:
    path, _, query = address.partition("?")
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "client": None,
        "root_path": "",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [],
    }
    status, kind, pieces = 0, "", []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, kind
        if message["type"] == "http.response.start":
            status = message["status"]
            kind = dict(message["headers"]).get(b"content-type", b"").decode("latin-1")
        elif message["type"] == "http.response.body":
            pieces.append(message.get("body", b""))

    await app(scope, receive, send)
    return status, kind, b"".join(pieces)
