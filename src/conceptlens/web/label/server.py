"""A small server for one rater on this machine: standard library only, loopback only, with a token in its address."""

import io
import json
import secrets
import sys
import webbrowser
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from conceptlens.core.errors import UserError
from conceptlens.core.package_files import package_text
from conceptlens.core.system_errors import reason
from conceptlens.workflows.label.labeling import Labeling, LabelReport

MAX_BODY = 100_000
SIDE = 1600  # pixels of the larger side that are shown


class LabelServer(ThreadingHTTPServer):
    """Serves the page of one rater until labeling is finished.

    Args:
        labeling: Images, questions and answers.
        n: How many images are queued at a time.
        port: 0 for any that is free.
    """

    daemon_threads = True

    def __init__(self, labeling: Labeling, *, n: int = 50, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.labeling, self.n = labeling, n
        self.token = secrets.token_urlsafe(16)
        self.lock = Lock()
        self.report: LabelReport | None = None
        self._queue: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/?token={self.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def next(self) -> dict[str, Any]:
        """The image to label now."""
        if not self._queue:
            self._queue = self.labeling.queue(self.n)
        questions = [{"name": each.name, "values": list(each.values)} for each in self.labeling.questions]
        image = self._queue[0] if self._queue else None
        labeled = len({name for name, _ in self.labeling.log.answers()})
        progress = {"left": len(self._queue), "labeled": labeled, "images": len(self.labeling.source)}
        who = {"rater": self.labeling.log.rater}
        return {"image": image, "questions": questions if image else [], **progress, **who}

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        image, answers = body.get("image"), body.get("answers")
        if not isinstance(image, str) or not isinstance(answers, dict):
            raise UserError("Expected an image and its answers.")
        self.labeling.keep(image, {str(name): str(value) for name, value in answers.items()})
        self._queue = [each for each in self._queue if each != image]
        return self.next()

    def undo(self) -> dict[str, Any]:
        before = self.labeling.log.answers()
        image = self.labeling.log.undo()
        if image is None:
            raise UserError("There is nothing to take back.")
        self._queue = [image, *(each for each in self._queue if each != image)]
        given = {question: answer for (name, question), answer in before.items() if name == image}
        return {**self.next(), "answers": given}

    def done(self) -> dict[str, Any]:
        self.report = self.labeling.finish()
        return {"text": self.report.text()}


class _Handler(BaseHTTPRequestHandler):
    server: LabelServer
    timeout = 30  # seconds for each step of a client
    place: SplitResult

    def parse_request(self) -> bool:
        try:
            if not super().parse_request():
                return False
            self.place = urlsplit(self.path)
        except ValueError:  # as of `http://[`
            self.send_error(HTTPStatus.BAD_REQUEST)
            return False
        return True

    def do_GET(self) -> None:
        place = self.place
        given = parse_qs(place.query)
        if place.path == "/":
            self._send(package_text("conceptlens.web", "label", "page.html").encode(), "text/html; charset=utf-8")
        elif place.path == "/image" and self._allowed(given.get("token", [""])[0]):
            self._send_image(given.get("id", [""])[0])
        elif place.path == "/next":
            self._reply(self.server.next)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length") or "0"
        size = int(length) if length.isdecimal() and len(length) < 12 else MAX_BODY + 1
        if size > MAX_BODY:
            self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        raw = self.rfile.read(size)
        steps: dict[str, Callable[[], dict[str, Any]]] = {
            "/answer": lambda: self.server.answer(_object(raw)),
            "/undo": self.server.undo,
            "/done": self.server.done,
        }
        step = steps.get(self.place.path)
        if step is None:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self._reply(step)
        if self.server.report is not None:  # another thread answers; this one may stop the server
            self.server.shutdown()

    def _allowed(self, token: str) -> bool:
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
        return secrets.compare_digest(token.encode(), self.server.token.encode()) and host in ("127.0.0.1", "localhost")

    def _reply(self, step: Callable[[], dict[str, Any]]) -> None:
        if not self._allowed(self.headers.get("X-Token") or ""):
            self._send(b'{"error": "Open the address that the command printed."}', status=HTTPStatus.FORBIDDEN)
            return
        try:
            with self.server.lock:
                found, status = step(), HTTPStatus.OK
        except UserError as error:
            found, status = {"error": str(error)}, HTTPStatus.BAD_REQUEST
        except OSError as error:  # the disk is full, say: whoever labels must hear that nothing was kept
            found, status = {"error": reason(error) or str(error)}, HTTPStatus.INTERNAL_SERVER_ERROR
        self._send(json.dumps(found).encode(), status=status)

    def _send_image(self, name: str) -> None:
        source = self.server.labeling.source
        try:
            picture = source.read(source.examples.ids.index(name))
        except (ValueError, UserError):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        picture.thumbnail((SIDE, SIDE))
        data = io.BytesIO()
        picture.save(data, "PNG")
        self._send(data.getvalue(), "image/png")

    def _send(self, data: bytes, kind: str = "application/json", status: HTTPStatus = HTTPStatus.OK) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Addresses hold names of images: nothing is logged."""


def _object(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        raise UserError("Expected JSON.") from None
    return found if isinstance(found, dict) else {}


def serve_labeling(
    labeling: Labeling, *, n: int, port: int, open_browser: bool, say: Callable[[str], object]
) -> LabelReport:
    """Serve until the rater finishes or interrupts; either way the labels land in the table."""
    try:
        server = LabelServer(labeling, n=n, port=port)
    except OSError as error:
        raise UserError(
            f"--port {port}: cannot listen there ({error.strerror}). Leave it out for any free one."
        ) from None
    with server:
        say(f"label at {server.address} (Ctrl+C or the page's button finishes)")
        if open_browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            say("finishing")
    return server.report or labeling.finish()
