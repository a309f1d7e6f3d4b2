"""Middleware: checks every request, reads its body within limits, and adds security headers to every answer."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from conceptlens.web.server.access import Access
from conceptlens.web.server.login import login, login_page
from conceptlens.web.server.problems import Problem
from conceptlens.web.server.safety import HEADERS, network
from conceptlens.web.server.uploads import Limits

JSON_BYTES = 4_000_000  # of a request that is no upload
IN_FLIGHT = 200_000_000  # bytes of all bodies that are not answered yet, or four uploads; half of them for one client


@dataclass
class RequestMiddleware:
    """Wraps the application."""

    app: ASGIApp
    access: Access
    limits: Limits
    in_flight: Counter[str] = field(default_factory=Counter)  # bytes of bodies that wait for their answer, by client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        marked = _marking(send)
        try:
            headers = _headers(scope)
            method, path = scope["method"], scope["path"]
            client = client_of(scope)
            if self.access.policy.token is not None and path == "/login":
                self.access.policy.check(method, path, headers)
                await login(self.access, method, await _body(receive, 4096, 10.0), headers, client, marked)
                return
            try:
                self.access.check(method, path, headers, client)
            except Problem as problem:
                if problem.code in ("token", "owner") and method == "GET" and not path.startswith("/api/"):
                    said = problem.message if problem.code == "owner" else ""
                    await login_page(marked, problem.status, said, to=path)
                    return
                raise
            if method in ("GET", "HEAD", "OPTIONS"):
                await self.app(scope, receive, marked)
                return
            await self._with_body(scope, receive, marked, path)
        except Problem as problem:
            await refuse(problem, marked)

    async def _with_body(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        """Take in all of the body before anything is done with it: a slow client keeps nobody but itself waiting."""
        upload = path.endswith(("/prediction", "/studio/encode"))
        most = self.limits.bytes if upload else JSON_BYTES
        declared = _headers(scope).get("content-length", "")
        if declared.isdecimal() and int(declared[:12]) > most:
            raise _too_large(most)
        client, arrived, room = client_of(scope), 0, max(IN_FLIGHT, 4 * self.limits.bytes)

        def count(size: int) -> None:
            nonlocal arrived
            arrived += size
            self.in_flight[client] += size
            if self.in_flight[client] > room // 2 or self.in_flight.total() > room:
                raise Problem(503, "busy", "Too many uploads at once. Try again in a moment.", wait=2)

        try:
            body = await _body(receive, most, self.limits.seconds, count)
            waiting = [{"type": "http.request", "body": body, "more_body": False}]

            async def replay() -> Message:
                return waiting.pop() if waiting else await receive()

            await self.app(scope, replay, send)  # work may queue, and the body is in memory until then
        finally:
            self.in_flight[client] -= arrived
            self.in_flight += Counter()  # forget clients of whom nothing is left


def _headers(scope: Scope) -> dict[str, str]:
    """By lower-case names; a header that must be unique and is not is refused."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in found and key in ("host", "authorization", "origin", "sec-fetch-site", "content-length"):
            raise Problem(400, "bad-request", f"The header {key} occurs twice.")
        found[key] = f"{found[key]}; {value.decode('latin-1')}" if key in found else value.decode("latin-1")
    return found


def client_of(scope: Scope) -> str:
    """Who asks, as far as limits for one client are concerned."""
    return network(scope["client"][0]) if scope.get("client") else ""


async def _body(receive: Receive, most: int, seconds: float, count: Callable[[int], None] = lambda size: None) -> bytes:
    async def take() -> bytes:
        pieces: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Problem(400, "bad-request", "The connection was closed before the body was complete.")
            piece = message.get("body", b"")
            size += len(piece)
            if size > most:
                raise _too_large(most)
            count(len(piece))
            pieces.append(piece)
            more = message.get("more_body", False)
        return b"".join(pieces)

    try:
        return await asyncio.wait_for(take(), seconds)
    except TimeoutError:
        raise Problem(408, "slow", f"The request did not arrive within {seconds:g} seconds.") from None


def _too_large(most: int) -> Problem:
    return Problem(413, "too-large", f"At most {most:,} bytes are accepted.")


def error_body(problem: Problem) -> bytes:
    """The body of every answer with a status of 400 or more."""
    value: dict[str, Any] = {
        "schema": 1,
        "error": {"code": problem.code, "message": problem.message, "command": problem.command},
    }
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


async def refuse(problem: Problem, send: Send) -> None:
    """Answer with a problem."""
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if problem.wait:
        headers.append((b"retry-after", str(problem.wait).encode()))
    if problem.status in (400, 408, 413, 503):
        headers.append((b"connection", b"close"))  # what else the client sends is not read
    body = error_body(problem)
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _marking(send: Send) -> Send:
    """Adds to every answer what a browser must not do with it."""
    fixed = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def marked(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            names = {name.lower() for name, _ in headers}
            if b"cache-control" not in names:
                headers.append((b"cache-control", b"private, no-cache"))
            message = {**message, "headers": headers + fixed}
        await send(message)

    return marked
