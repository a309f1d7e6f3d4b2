"""Requests that nobody should send, drawn from a seed: right addresses with wrong values, wrong addresses, no HTTP.

`Fuzzer` knows the server's schema and names that exist, so that most requests get past the first check. What counts as
a fault: an answer of 500 or more other than "busy", an error that is not the documented JSON, no answer at all.
"""

import contextlib
import http.client
import io
import json
import random
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from PIL import Image

SECONDS = 60.0  # a busy machine may need them; longer is a hang
WORDS: tuple[Any, ...] = (
    "", " ", "0", "-1", "1e999", "NaN", "null", "None", "true", "..", "../../etc/passwd", "%00", "\x00", "a" * 5000,
    "é", "𝕏", "\ud800", "<b>", "'; --", "{{7*7}}", "${x}", "con", ".", "/", "\\", "slots", "test", "r1", "2147483648",
    "9" * 400, "-0", "١", "data:,", "\u202e", "key.json",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 1e308, -1e-320, float("nan"), float("inf"), [], {}, [[]], "",
    {"": ""}, [None] * 50, {"schema": 1}, list(range(2000)), "x" * 20_000, {"a": {"a": {"a": {}}}},
)  # fmt: skip
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
HEADERS: tuple[tuple[str, str], ...] = (
    ("If-None-Match", '"x", W/"y", *'),
    ("Range", "bytes=0-0,5-1"),
    ("Accept", "text/html;q=nonsense"),
    ("Accept-Encoding", "gzip, br, identity;q=0"),
    ("Content-Type", "multipart/form-data; boundary="),
    ("Content-Type", "application/json; charset=utf-16"),
    ("Cookie", "a=b; conceptlens-=; ;;=; " + "c" * 2000),
    ("Authorization", "Bearer \x7f"),
    ("X-Forwarded-For", "evil.example"),
    ("X-HTTP-Method-Override", "DELETE"),
    ("Origin", "https://evil.example"),
    ("Sec-Fetch-Site", "cross-site"),
    ("Transfer-Encoding", "identity"),
    ("Expect", "100-continue"),
    ("Upgrade", "websocket"),
)
RAW: tuple[bytes, ...] = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET  /  HTTP/1.1\r\n\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
    b"POST /api/v1/runs/x/flip HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
    b"POST /api/v1/runs/x/flip HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"POST /a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /",
    b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 200_000 + b"\r\n\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\r\n" * 1000,
    b"",
)


@dataclass
class Found:
    """What was sent and what came back."""

    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    operations: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)

    def add(self, other: "Found") -> None:
        self.requests += other.requests
        self.statuses += other.statuses
        self.operations |= other.operations
        self.faults += other.faults


class Fuzzer:
    """Sends drawn requests to one server. The same seed sends the same ones."""

    def __init__(self, address: str, seed: int) -> None:
        parts = urlsplit(address)
        assert parts.hostname
        assert parts.port
        self._place = (parts.hostname, parts.port)
        self._chance = random.Random(seed)
        self._line = self._connect()
        self._pictures = [_picture(kind) for kind in ("PNG", "JPEG", "TIFF", "WEBP", "BMP")]
        self._kind = "application/json"  # of the next body
        self.found = Found()
        self._learn()

    def _learn(self) -> None:
        """Addresses, names and bodies that fit."""
        self._document = self._json("/api/v1/openapi.json")
        cards = self._json("/api/v1/runs")["runs"]
        self._keys: dict[str, list[str]] = {}
        for card in cards:
            self._keys.setdefault(card["kind"] or "", []).append(card["key"])
        self._all = [card["key"] for card in cards]
        self._bodies = self._valid_bodies(self._keys.get("bottleneck", []))

    def run(self, requests: int) -> Found:
        """Send so many."""
        ways: list[tuple[Callable[[], None], int]] = [(self._operation, 84), (self._address, 10), (self._no_http, 6)]
        for _ in range(requests):
            (way,) = self._chance.choices([way for way, _ in ways], [weight for _, weight in ways])
            way()
            self.found.requests += 1
        self._line.close()
        return self.found

    def _operation(self) -> None:
        """An address of the schema: real names or odd ones, a body that fits, or almost, or not at all."""
        path, item = self._chance.choice(list(self._document["paths"].items()))
        method, operation = self._chance.choice(list(item.items()))
        address, query = path, []
        for parameter in operation.get("parameters", []):
            value = quote(_text(self._value_of(path, parameter)), safe="")
            if parameter["in"] == "path":
                address = address.replace(f"{{{parameter['name']}}}", value)
            elif parameter["in"] == "query" and self._chance.random() < 0.6:
                query.append(f"{parameter['name']}={value}")
        if query:
            address += "?" + "&".join(query)
        body = self._body(path) if method in ("post", "put") else None
        name = f"{method.upper()} {path}"
        self.found.operations.add(name)
        self._send(
            method.upper() if self._chance.random() < 0.95 else self._chance.choice(METHODS), address, body, name
        )

    def _address(self) -> None:
        """An address that does not exist, or is written oddly."""
        steps = [
            quote(_text(self._chance.choice(WORDS))[:300], safe="%./\\") for _ in range(self._chance.randint(1, 5))
        ]
        start = self._chance.choice(("/", "/api/", "/api/v1/", "/static/", "/study/", "//", "/api/v1/runs/"))
        self._send(self._chance.choice(METHODS), start + "/".join(steps), None, "an odd address")

    def _no_http(self) -> None:
        """Bytes; the server may answer or hang up, and must do one of them."""
        sent = bytearray(self._chance.choice(RAW))
        for _ in range(self._chance.randint(0, 3)):
            if sent:
                sent[self._chance.randrange(min(len(sent), 200))] = self._chance.randrange(256)
        with socket.create_connection(self._place, timeout=SECONDS) as line:
            try:
                line.sendall(bytes(sent))
                with contextlib.suppress(OSError):  # it may have hung up already
                    line.shutdown(socket.SHUT_WR)
                answer = line.recv(4096)
            except ConnectionError:
                return
            except TimeoutError:
                self.found.faults.append(f"no answer to {bytes(sent[:60])!r}")
                return
        if answer.startswith(b"HTTP/1.1 500"):
            self.found.faults.append(f"500 to {bytes(sent[:60])!r}")

    def _value_of(self, path: str, parameter: dict[str, Any]) -> Any:
        """A name that exists, mostly of a folder of the right kind; or any word."""
        draw = self._chance.random()
        if draw < 0.1:
            return self._chance.choice(WORDS)
        name, schema = parameter["name"], parameter.get("schema", {})
        if name in ("run", "study"):
            kind = next((kind for part, kind in KINDS.items() if part in path), "bottleneck")
            return self._chance.choice(self._all if draw < 0.3 else self._keys.get(kind) or self._all)
        if "/graphs/" in path and name == "name":
            return "graph"
        if name in KNOWN:
            return self._chance.choice(KNOWN[name])
        offered = schema.get("enum") or [part["enum"][0] for part in schema.get("anyOf", []) if "enum" in part]
        return self._chance.choice(offered or [schema.get("default", 1)])

    def _body(self, path: str) -> bytes:
        if path.endswith(("/prediction", "/encode")):
            return self._damaged(self._chance.choice(self._pictures))
        draw = self._chance.random()
        if draw < 0.1:
            return self._chance.choice(
                (b"", b"{", b"[" * 20_000, b'{"a":' * 5000, b"\xff\xfe{}", b"null", b'"\\ud800"')
            )
        valid = self._bodies.get(path.rsplit("/", 1)[-1], {})
        body = json.loads(json.dumps(valid))
        if draw < 0.5:
            self._change(body)
        return json.dumps(body).encode()

    def _change(self, body: dict[str, Any]) -> None:
        """Another value somewhere in it."""
        node: Any = body
        while isinstance(node, dict | list) and node:
            key = self._chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
            if not isinstance(node[key], dict | list) or not node[key] or self._chance.random() < 0.4:
                node[key] = self._chance.choice(VALUES + tuple(word for word in WORDS if word != "\ud800"))
                return
            node = node[key]
        if isinstance(node, dict):
            node[self._chance.choice(("state", "edits", "rater", "word", "x"))] = self._chance.choice(VALUES)

    def _damaged(self, picture: bytes) -> bytes:
        data = bytearray(picture)
        for _ in range(self._chance.choice((0, 0, 1, 3, 20))):
            data[self._chance.randrange(len(data))] = self._chance.randrange(256)
        return bytes(data[: self._chance.randrange(len(data))]) if self._chance.random() < 0.2 else bytes(data)

    def _send(self, method: str, address: str, body: bytes | None, name: str) -> None:
        headers = {"Content-Type": self._kind}
        if self._chance.random() < 0.2:
            headers |= dict([self._chance.choice(HEADERS)])
        try:
            self._line.request(method, address, body, headers)
            answer = self._line.getresponse()
            content = answer.read()
        except (http.client.HTTPException, ConnectionError, ValueError) as error:
            self._line.close()
            self._line = self._connect()
            # A body that is refused early, and a request that is not HTTP: the server may hang up.
            if isinstance(error, TimeoutError):
                self.found.faults.append(f"{name}: {error}")
            return
        except TimeoutError:
            self._line.close()
            self._line = self._connect()
            self.found.faults.append(f"{name}: no answer within {SECONDS:g} seconds: {method} {address[:200]}")
            return
        self.found.statuses[answer.status] += 1
        if answer.status >= 500 and answer.status != 503:
            self.found.faults.append(f"{answer.status}: {method} {address[:300]} {(body or b'')[:300]!r}")
        elif answer.status >= 400 and method != "HEAD" and b"</form>" not in content:
            try:
                assert json.loads(content)["error"]["message"]
            except (ValueError, KeyError, TypeError, AssertionError):
                if answer.getheader("content-type") != "text/plain; charset=utf-8":  # uvicorn's, of what is no HTTP
                    self.found.faults.append(f"{answer.status} without a reason: {method} {address[:300]}")

    def _valid_bodies(self, models: list[str]) -> dict[str, Any]:
        """Bodies that are right, of the model that comes first; by the last part of the address."""
        bodies: dict[str, Any] = {
            "raters": {"rater": "r1", "word": None},
            "{rater}": {"word": "abcd-abcd-abcd", "answers": {"c0": {"answer": "x", "ms": 5, "changes": 0}}},
            "analysis": {"unfinished": False},
            "generate": {"client": "c1", "condition": "neutral", "seed": 1},
        }
        for key in self._keys.get("codebook", []):
            grid = {"client": "c1", "tokens": self._json(f"/api/v1/runs/{key}/studio/images/0").get("tokens", [[0]])}
            bodies |= {
                "importance": {**grid, "concept": 0},
                "mask": {**grid, "cells": [0, 1]},
                "edit": {**grid, "cells": [0, 1], "target": "square", "steps": 2},
            }
        if models:
            job = {"command": "interventions", "run": models[0], "values": {"resamples": 10}}
            retrain = {"command": "train", "run": models[0], "name": "again", "settings": ["training.epochs = 1"]}
            note = {"author": "Ann", "kind": "image", "of": ["0.png"], "name": "seen", "group": "odd", "note": ""}
            best = {"metric": "class.accuracy", "runs": (models * 2)[:2]}
            # Most clients name a device that is not there: else jobs would take the machine from everyone.
            jobs = job if self._chance.random() < 0.2 else {**job, "device": "cuda:9"}
            bodies |= {"annotations": note, "best": best, "pass": {}, "jobs": jobs, "cancel": {}}
            bodies["line"] = self._chance.choice((job, retrain))
        for key in models:
            told = self._json(f"/api/v1/runs/{key}/images/test/0/prediction")
            if "state" in told:
                what_if = {"state": told["state"], "edits": told.get("truth_edits", [])}
                correct = {"rater": "r1", "image": told["image"], "edits": what_if["edits"][:1]}
                return bodies | {"intervene": what_if, "ask": what_if, "flip": what_if, "corrections": correct}
        return bodies

    def _json(self, address: str) -> Any:
        self._line.request("GET", address)
        return json.loads(self._line.getresponse().read())

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self._place, timeout=SECONDS)


KINDS = {"/studio": "codebook", "/graphs": "decomposition", "/studies": "study", "/comparison": "comparison"}
NAMES = ("trust", "interventions", "leakage", "audit", "metrics", "tokens", "edit", "graph", "faithfulness", "nothing")
KNOWN: dict[str, tuple[Any, ...]] = {
    "split": ("test", "val", "train"),
    "row": (0, 1, 2),
    "number": (0, 1, 2),
    "name": NAMES,
    "rater": ("r1", "a"),
    "method": ("ivq-cbm", "cbm", "gig"),
    "gradcam": ("none", "auto", "all", "1,2"),
    "size": (1, 60),
    "client": ("c1", "c2"),
    "sheet": (0, 1, 2),
    "most": (1, 12),
    "job": ("000001", "000002", "000003", "000400", "1"),
    "after": (0, 10, 10**12),
    "form": ("md", "tex"),
}


def _text(value: Any) -> str:
    return str(value).encode("utf-8", "replace").decode()


def _picture(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize((40, 30)).convert("RGB").save(buffer, kind)
    return buffer.getvalue()
