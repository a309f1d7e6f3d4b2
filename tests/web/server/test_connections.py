"""Deadlines of connections and the number of them: whoever is slow loses their own place, never that of another."""

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the page needs the extra `page`")

import uvicorn

from conceptlens.web.server import connections
from conceptlens.web.server.access import Access
from conceptlens.web.server.connections import GuardedConnection
from conceptlens.web.server.middleware import RequestMiddleware
from conceptlens.web.server.safety import Policy, network
from conceptlens.web.server.serve import Options, listen
from conceptlens.web.server.uploads import Limits

GET = b"GET /%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
BIG = b"x" * 30_000_000
Connect = Callable[[], socket.socket]


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """`/big` is large, `/long` takes a while, `/read` reads its body, everything else is one byte."""
    import anyio

    if scope["path"] == "/read":
        while (await receive()).get("more_body"):
            pass
    if scope["path"] == "/long":
        await anyio.sleep(0.7)
    body = BIG if scope["path"] == "/big" else b"."
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[uvicorn.Server, tuple[str, int]]]:
    taken = listen(Options(port=0))
    config = uvicorn.Config(
        answer, http=GuardedConnection, ws="none", lifespan="off", log_level="critical", timeout_keep_alive=30
    )
    made = uvicorn.Server(config)
    thread = threading.Thread(target=made.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    while not made.started:
        time.sleep(0.01)
    yield made, taken.getsockname()[:2]
    made.force_exit = made.should_exit = True
    thread.join(10)


@pytest.fixture
def connect(server: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Opens connections, with deadlines of a fraction of a second."""
    for name in ("HEAD", "BODY", "READING"):
        monkeypatch.setattr(connections, name, 0.3)
    opened: list[socket.socket] = []

    def one() -> socket.socket:
        line = socket.create_connection(server[1], timeout=5)
        opened.append(line)
        return line

    yield one
    for line in opened:
        line.close()
    while server[0].server_state.connections:
        time.sleep(0.01)


def ended(line: socket.socket, drip: bytes = b"") -> float:
    """Seconds until the server closes a connection on which something comes again and again."""
    began = time.perf_counter()
    line.settimeout(0.05)
    while time.perf_counter() - began < 3:
        try:
            if drip:
                line.sendall(drip)
            if not line.recv(100_000):
                return time.perf_counter() - began
        except TimeoutError:
            continue
        except OSError:
            return time.perf_counter() - began
    raise AssertionError("the connection is still open")


def ask(line: socket.socket, path: bytes = b"") -> bytes:
    line.sendall(GET % path)
    return whole(line)


def whole(line: socket.socket) -> bytes:
    """A short answer to its last byte."""
    read = line.recv(4096)
    while read and not read.endswith(b"."):
        read += line.recv(4096)
    return read


@pytest.mark.parametrize("before", [0, 1, 2])
def test_the_head_of_every_request_has_a_deadline(connect: Connect, before: int) -> None:
    line = connect()
    for _ in range(before):
        assert ask(line).endswith(b".")
    line.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
    assert ended(line, b"x") < 1


@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_a_body_has_a_deadline_also_when_it_is_not_read(connect: Connect, method: bytes) -> None:
    line = connect()
    line.sendall(method + b" / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\n")
    assert b" 200 " in whole(line)
    assert ended(line, b"x") < 1


@pytest.mark.parametrize(("path", "pieces"), [(b"read", 2), (b"", 2), (b"long", 2), (b"", 1)])
def test_a_body_that_stops_being_http_leaves_no_traceback(
    connect: Connect, path: bytes, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the request is read, after it was answered, while it is worked on, and before anything began."""
    said: list[str] = []
    for name in ("uvicorn.error", "asyncio"):
        monkeypatch.setattr(logging.getLogger(name), "error", lambda text, *rest, **more: said.append(text))
    line = connect()
    head = b"POST /%s HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n" % path
    for part in (head, b"ZZ\r\n") if pieces == 2 else (head + b"ZZ\r\n",):
        line.sendall(part)
        time.sleep(0.05)
    assert ended(line) < 1
    time.sleep(0.8 if path == b"long" else 0.05)  # until the work is done
    assert said == []


def test_nothing_ends_a_connection_that_is_quick(connect: Connect) -> None:
    line = connect()
    assert ask(line, b"long").endswith(b".")  # twice as long as a head may take
    time.sleep(0.35)
    assert ask(line).endswith(b".")


def test_an_answer_must_be_taken(connect: Connect, server: Any) -> None:
    line = connect()
    line.sendall(GET % b"big")
    began = time.perf_counter()
    while server[0].server_state.connections or time.perf_counter() - began < 0.1:
        assert time.perf_counter() - began < 3
        time.sleep(0.02)


def test_who_waits_longest_makes_room(connect: Connect, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD", 10.0)
    monkeypatch.setattr(connections, "PER_CLIENT", 20)
    at_work = connect()
    at_work.sendall(GET % b"long")
    time.sleep(0.1)
    slow = [connect() for _ in range(100)]
    for line in slow:
        line.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
    began = time.perf_counter()
    assert ask(connect()).endswith(b".")
    assert time.perf_counter() - began < 1
    assert len(server[0].server_state.connections) <= 20
    assert ended(slow[0]) < 1
    assert whole(at_work).endswith(b".")  # it was the oldest, but nobody waited for its client
    slow[-1].settimeout(0.05)
    with pytest.raises(TimeoutError):
        slow[-1].recv(1)


def test_all_places_together_are_limited(connect: Connect, server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ALL", 4)
    monkeypatch.setattr(connections, "HEAD", 10.0)
    at_work = [connect() for _ in range(4)]
    for line in at_work:
        line.sendall(GET % b"long")
    time.sleep(0.1)
    assert ended(connect()) < 1  # nobody can be sent away but the last one
    assert all(whole(line).endswith(b".") for line in at_work)
    assert ask(connect()).endswith(b".")
    assert len(server[0].server_state.connections) <= 4


def test_a_client_is_an_address_or_a_network() -> None:
    assert network("10.0.0.7") == network("::ffff:10.0.0.7") == "10.0.0.7"
    assert network("2001:db8::1") == network("2001:db8::ffff:2") == "2001:db8::/64"
    assert network("2001:db8:0:1::1") != network("2001:db8::1")
    assert network("fe80::1%eth0") == "fe80::/64"
    assert network("testclient") == "testclient"


def test_what_is_only_announced_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies count as they arrive, and one client has half of the room."""
    import anyio

    monkeypatch.setattr("conceptlens.web.server.middleware.IN_FLIGHT", 100)
    done: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        done.append(len((await receive())["body"]))

    guard = RequestMiddleware(app, Access(Policy()), Limits(bytes=25, seconds=5))

    async def upload(client: str, size: int, wait: anyio.Event, more: bool) -> int:
        headers = [(b"host", b"127.0.0.1"), (b"content-length", b"24")]
        scope = {"type": "http", "method": "POST", "path": "/prediction", "headers": headers, "client": (client, 1)}
        sent = [{"type": "http.request", "body": b"x" * size, "more_body": more}]
        statuses: list[int] = []

        async def receive() -> Any:
            if not sent:
                await wait.wait()
                return {"type": "http.request", "body": b"", "more_body": False}
            return sent.pop()

        async def send(message: Any) -> None:
            statuses.append(message.get("status", 0))

        await guard(scope, receive, send)
        return statuses[0] if statuses else 200

    async def crowd() -> list[int]:
        gate = anyio.Event()
        async with anyio.create_task_group() as group:
            for _ in range(10):  # each announces 24 bytes and sends 4
                group.start_soon(upload, "10.0.0.1", 4, gate, True)
            await anyio.sleep(0.05)
            same = await upload("10.0.0.1", 20, gate, False)
            other = await upload("10.0.0.2", 20, gate, False)
            gate.set()
        return [same, other]

    assert anyio.run(crowd) == [503, 200]
    assert done == [20] + [4] * 10
    assert guard.in_flight.total() == 0


def test_bodies_count_until_they_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work may queue; what has arrived by then is in memory all that time."""
    import anyio

    monkeypatch.setattr("conceptlens.web.server.middleware.IN_FLIGHT", 100)

    async def crowd() -> list[int]:
        gate = anyio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await receive()
            await gate.wait()

        guard = RequestMiddleware(app, Access(Policy()), Limits(bytes=25, seconds=5))
        statuses: list[int] = []

        async def upload() -> None:
            headers = [(b"host", b"127.0.0.1")]
            scope = {"type": "http", "method": "POST", "path": "/prediction", "headers": headers, "client": ("::1", 1)}

            async def receive() -> Any:
                return {"type": "http.request", "body": b"x" * 20, "more_body": False}

            async def send(message: Any) -> None:
                statuses.append(message.get("status", 0))

            await guard(scope, receive, send)

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(upload)
            await anyio.sleep(0.05)
            refused = [status for status in statuses if status]
            gate.set()
        assert guard.in_flight.total() == 0
        return refused

    assert anyio.run(crowd) == [503, 503, 503]
