"""Connections: each step of a client has a deadline, and no client can hold all places.

| the server waits for | at most |
| --- | --- |
| the head of a request, the first on a connection or a later one | `HEAD` seconds |
| the rest of its body, also if it was answered already | `BODY` seconds (uploads are answered with 408 before that) |
| a client that does not read its answer | `READING` seconds for every `SLOWEST` bytes |
| the next request on an open connection | uvicorn's `timeout_keep_alive` |

A network may have `PER_CLIENT` connections, and all together `ALL`. One more takes the place of the connection that the
server has been waiting for longest: of the same network, or of the network with the most connections. A connection
whose request is being worked on is never closed for another one.
"""

import asyncio
from collections import Counter

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from conceptlens.web.server.safety import network

HEAD = 15.0
BODY = 25.0
READING = 30.0
SLOWEST = 64_000
PER_CLIENT = 128
ALL = 512


class GuardedConnection(H11Protocol):
    """uvicorn's connection with deadlines and a limited number of places."""

    waits_since: float | None = None  # None: a request is being worked on
    network: str = ""
    _phase: str = ""
    _deadline: asyncio.TimerHandle | None = None
    _reader: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.network = network(self.client[0] if self.client else "")
        self._enter("head")
        self._make_room()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing():  # what came is no HTTP
            self._abort_later()
        self._look(h11.IDLE)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._abort_later()
        self._look()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._abort_later()

    def send_400_response(self, msg: str) -> None:
        """Where a body stops being HTTP, the request is over: its work must not answer after this."""
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # an answer has begun
            self.transport.abort()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        self._enter("lost")
        self._cancel_reader()
        super().connection_lost(exc)

    def _look(self, head: object = None) -> None:
        """Enter the phase that h11 is in; in the state `head` a head has begun."""
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            self._enter("body")
        elif state is not h11.IDLE:
            self._enter("work")
        elif state is head:
            self._enter("head")
        elif self._phase != "head":
            self._enter("idle")

    def _enter(self, phase: str) -> None:
        """A deadline begins with a phase, however many pieces of it arrive."""
        if phase == self._phase:
            return
        self._phase = phase
        if self._deadline:
            self._deadline.cancel()
        seconds = {"head": HEAD, "body": BODY}.get(phase)
        self._deadline = self.loop.call_later(seconds, self.transport.abort) if seconds else None
        self.waits_since = None if phase in ("work", "lost") else self.loop.time()

    def _watch_reader(self, before: int | None = None) -> None:
        """Abort unless the client takes its answer; called again and again while it is slow."""
        size = self.transport.get_write_buffer_size()
        if before is not None and before - size < min(before, SLOWEST):
            self.transport.abort()
        else:
            self._reader = self.loop.call_later(READING, self._watch_reader, size)

    def _abort_later(self) -> None:
        """A closed connection stays until its last answer is taken: not for ever."""
        if self._reader is None and self.transport.get_write_buffer_size():
            self._watch_reader()

    def _cancel_reader(self) -> None:
        if self._reader:
            self._reader.cancel()
            self._reader = None

    def _make_room(self) -> None:
        """Close a waiting connection, or this one if all others are at work, where there are too many."""
        others = [other for other in self.connections if isinstance(other, GuardedConnection) and other is not self]
        counts = Counter(other.network for other in others)
        if counts[self.network] >= PER_CLIENT:
            crowded = self.network
        elif len(others) >= ALL:
            crowded = counts.most_common(1)[0][0]
        else:
            return
        waiting = [other for other in others if other.network == crowded and other.waits_since is not None]
        oldest = min(waiting, key=lambda other: other.waits_since or 0.0, default=self)
        self.connections.discard(oldest)  # it is lost only in the next round of the event loop
        oldest.transport.abort()
