"""Clients that begin and never finish: how long others wait meanwhile."""

import random
import socket
import statistics
import time
from typing import Any
from urllib.parse import urlsplit

HEADS = (
    b"",
    b"G",
    b"GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    b"GET /api/v1/about HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET /api/v1/about HTT",  # the second request is slow
    b"GET /api/v1/about HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\nabc",
    b"POST /api/v1/runs/x/prediction HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 19000000\r\n\r\nabc",
    b"POST /v1/prediction HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 19000000\r\n\r\nabc",
    b"POST /api/v1/runs/x/flip HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
)


def besiege(address: str, lines: int, seconds: float, seed: int, *, asked: str = "/api/v1/runs") -> dict[str, Any]:
    """Hold so many connections open by a byte now and then, opening lost ones again; ask as someone else meanwhile.

    Slow ones come from 127.0.0.2 where the system allows it, and from the same address as the others as well. `asked`
    is what the others ask for.
    """
    parts = urlsplit(address)
    place = (parts.hostname or "", parts.port or 0)
    chance = random.Random(seed)
    slow: list[socket.socket | None] = [None] * lines
    waits: list[float] = []
    before = max(_ask(place, asked) for _ in range(20))
    opened = lost = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for number in range(lines):
            line = slow[number]
            try:
                if line is None:
                    slow[number] = line = _connect(place, chance)
                    opened += 1
                    line.sendall(chance.choice(HEADS))
                elif chance.random() < 0.05:
                    line.sendall(b"x")
            except OSError:
                lost += 1
                if line is not None:
                    line.close()
                slow[number] = None
            if number % 50 == 49:
                waits.append(_ask(place, asked))
    for line in slow:
        if line is not None:
            line.close()
    waits.sort()
    return {
        "connections": lines,
        "opened": opened,
        "closed_by_the_server": lost,
        "longest_before_s": before,
        "others": len(waits),
        "others_median_s": statistics.median(waits),
        "others_longest_s": waits[-1],
    }


def _connect(place: tuple[str, int], chance: random.Random) -> socket.socket:
    source = ("127.0.0.2", 0) if chance.random() < 0.5 else None
    try:
        return socket.create_connection(place, timeout=5, source_address=source)
    except OSError:
        return socket.create_connection(place, timeout=5)


def _ask(place: tuple[str, int], asked: str) -> float:
    """Seconds of one ordinary request on a connection of its own; an error counts as forever."""
    began = time.perf_counter()
    try:
        with socket.create_connection(place, timeout=20) as line:
            line.sendall(f"GET {asked} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            first = line.recv(100)
            while line.recv(65536):
                pass
    except OSError:
        return float("inf")
    return time.perf_counter() - began if first.startswith(b"HTTP/1.1 200") else float("inf")
