"""The page's own files, answered from memory: a view is some forty small modules, and each would be a trip to a thread.

Names are those found in the folders when the server starts, so that no address leads to another file. The page names
its files below a version, as `@3f2a…/js/main.js`: what it once got there, a browser need not ask for again.
"""

import hashlib
import mimetypes
import os
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from conceptlens.web.server.answers import as_file, unchanged
from conceptlens.web.server.problems import Problem, not_found

KEPT = {"Cache-Control": "private, max-age=31536000, immutable"}
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}


@dataclass(frozen=True)
class _Asset:
    """A file as it was read."""

    stamp: tuple[int, int]
    content: bytes
    tag: str


class Assets:
    """An application that answers with files of some folders; a later one stands before an earlier one."""

    def __init__(self, **folders: Path) -> None:
        """`folders`: by the name below which their files are found; the empty name is `root`."""
        self._paths: dict[str, Path] = {}
        for name, folder in folders.items():
            for path in sorted(folder.rglob("*")):
                if path.is_file() and not path.is_symlink():
                    inner = path.relative_to(folder).as_posix()
                    self._paths[inner if name == "root" else f"{name}/{inner}"] = path
        self._kept: dict[str, _Asset] = {}
        self._version = ""  # of all files as they were when the page was last asked for; empty once one changed
        self.version()

    def version(self) -> str:
        """What tells these files from others."""
        tags = [f"{name} {self._read(name).tag}" for name in self._paths]
        self._version = hashlib.sha256("\n".join(tags).encode()).hexdigest()[:16]
        return self._version

    def page(self, request: Request) -> Response:
        """The page, which names its files with their version."""
        text = self._read("index.html").content.decode().replace('"static/', f'"static/@{self.version()}/')
        return as_file(request, text.encode(), TYPES[".html"])

    def answer(self, request: Request, name: str) -> Response:
        """A file, or 304 where the client has it; read again only when it changed."""
        version, _, inner = name.partition("/")
        name = inner if version.startswith("@") else name
        if name not in self._paths:
            raise not_found(f"/static/{name[:100]}: no such file.")
        asset, path = self._read(name), self._paths[name]
        kind = TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "text/plain"
        headers = {"ETag": asset.tag} | (KEPT if version == f"@{self._version}" else {})
        return unchanged(request, asset.tag) or Response(asset.content, 200, headers, kind)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
            raise Problem(405, "not-found", "Files of the page are only read.")
        name = scope["path"].removeprefix(scope.get("root_path", "")).lstrip("/")
        await self.answer(Request(scope), name)(scope, receive, send)

    def _read(self, name: str) -> _Asset:
        path, known = self._paths[name], self._kept.get(name)
        status = os.stat(path)
        stamp = (status.st_mtime_ns, status.st_size)
        if known is None or known.stamp != stamp:
            content = path.read_bytes()
            known = _Asset(stamp, content, f'"{hashlib.sha256(content).hexdigest()[:24]}"')
            self._kept[name], self._version = known, ""
        return known
