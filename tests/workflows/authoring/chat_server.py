"""A server in this process that speaks the chat protocol, well or badly as it is told."""

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """What the server does with one request."""

    content: str = ""
    status: int = 200
    body: bytes | None = None  # instead of a well-formed reply
    headers: dict[str, str] = field(default_factory=dict)
    wait: float = 0.0
    drip: float = 0.0  # seconds between single bytes


@dataclass
class Seen:
    """One request."""

    model: str
    prompt: str  # of the user's last message
    messages: list[dict[str, str]]
    key: str
    path: str


class ChatServer:
    """Answers each request by `answer`; remembers all of them."""

    def __init__(self, answer: Callable[[Seen], Reply], models: Sequence[str] = ()) -> None:
        self.answer = answer
        self.seen: list[Seen] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known = self.path == "/v1/models"
                body = json.dumps(
                    {"object": "list", "data": [{"id": name, "object": "model"} for name in models]}
                ).encode()
                self.send_response(200 if known else 404)
                self.send_header("Content-Length", str(len(body) if known else 0))
                self.end_headers()
                self.wfile.write(body if known else b"")

            def do_POST(self) -> None:
                data: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                seen = Seen(
                    data["model"],
                    data["messages"][-1]["content"],
                    data["messages"],
                    self.headers.get("Authorization", ""),
                    self.path,
                )
                outer.seen.append(seen)
                reply = outer.answer(seen)
                time.sleep(reply.wait)
                body = reply.body
                if body is None:
                    body = json.dumps(
                        {"choices": [{"message": {"role": "assistant", "content": reply.content}}]}
                    ).encode()
                try:
                    self.send_response(reply.status)
                    for name, value in reply.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    if reply.drip:
                        for byte in body:
                            self.wfile.write(bytes([byte]))
                            self.wfile.flush()
                            time.sleep(reply.drip)
                    else:
                        self.wfile.write(body)
                except OSError:
                    return  # the client gave up, as it should

            def log_message(self, format: str, *args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def __enter__(self) -> "ChatServer":
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def one_after_another(*replies: Reply) -> Callable[[Seen], Reply]:
    """Each request gets the next reply; the last one stays."""
    left = list(replies)
    return lambda seen: left.pop(0) if len(left) > 1 else left[0]
