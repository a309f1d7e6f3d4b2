"""A hub in this process: as much of the protocol as `huggingface_hub` speaks to publish and to fetch a model."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = hashlib.sha1(b"commit").hexdigest()


@dataclass
class Hub:
    """Repositories and their files; what was asked."""

    address: str = ""
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    private: dict[str, bool] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


def _oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words: Any) -> None:
            pass

        def reply(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"content-length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def json(self, value: Any, status: int = 200) -> None:
            self.reply(status, json.dumps(value).encode(), content_type="application/json")

        def missing(self, code: str) -> None:
            self.reply(404, b"{}", x_error_code=code)

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            hub.asked.append(path)
            if path.startswith("/api/models/"):
                owner, name, *rest = path.removeprefix("/api/models/").split("/")
                files = hub.files.get(f"{owner}/{name}")
                if files is None:
                    self.missing("RepoNotFound")
                elif rest[:1] == ["tree"]:
                    self.json([{"type": "file", "path": p, "size": len(d), "oid": _oid(d)} for p, d in files.items()])
                else:
                    listed = [{"rfilename": file} for file in files]
                    self.json({"_id": "1", "id": f"{owner}/{name}", "sha": COMMIT, "siblings": listed, "private": True})
                return
            if path.count("/") < 4:
                self.json({})
                return
            owner, name, _, _, *file = path.lstrip("/").split("/")
            data = hub.files.get(f"{owner}/{name}", {}).get("/".join(file))
            if data is None:
                self.missing("EntryNotFound")
            else:
                self.reply(200, data, etag=f'"{_oid(data)}"', x_repo_commit=COMMIT)

        def do_POST(self) -> None:
            path = urlsplit(self.path).path
            hub.asked.append(path)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if path == "/api/repos/create":
                asked = json.loads(body)
                repository = "/".join(filter(None, (asked.get("organization"), asked["name"])))
                hub.files.setdefault(repository, {})
                hub.private[repository] = asked.get("private") is True or asked.get("visibility") == "private"
                self.json({"url": f"{hub.address}/{repository}", "id": repository})
            elif path.endswith("/preupload/main"):
                listed = json.loads(body)["files"]
                self.json(
                    {"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in listed]}
                )
            elif path.endswith("/commit/main"):
                repository = "/".join(path.split("/")[3:5])
                for line in map(json.loads, body.splitlines()):
                    if line["key"] == "file":
                        hub.files[repository][line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                self.json({"commitUrl": f"{hub.address}/{repository}/commit/{COMMIT}", "commitOid": COMMIT})
            else:
                self.json({})

    return Handler


@contextmanager
def running() -> Iterator[Hub]:
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    hub.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
