"""Who is let in, what is refused, and that nobody can keep the others waiting."""

import io
import re
import socket
import struct
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from conceptlens.cli import main
from conceptlens.core.errors import UserError
from tests.web.conftest import World, client_of

pytest.importorskip("fastapi", reason="the page needs the extra `page`")

from conceptlens.web.server.middleware import RequestMiddleware, error_body
from conceptlens.web.server.problems import Problem
from conceptlens.web.server.safety import HEADERS, Policy, check_token, is_loopback
from conceptlens.web.server.serve import Options, listen, make_policy
from conceptlens.web.server.uploads import Limits, read_upload

TOKEN = "a-token-of-some-length"


def png(width: int, height: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), "green").save(buffer, "PNG")
    return buffer.getvalue()


def bomb(width: int, height: int) -> bytes:
    """A PNG of a few hundred kilobytes that claims, and holds, a great many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"\0" * (width + 1) * height, 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.fixture
def guarded(world: World) -> Any:
    return client_of(world.root, policy=Policy(TOKEN, frozenset({"cells.local"}), addresses=True))


def test_every_answer_forbids_what_a_page_must_not_do(client: Any) -> None:
    for address in ("/", "/static/js/main.js", "/api/v1/runs", "/api/v1/nothing", "/api/v1/runs/broken"):
        answer = client.get(address)
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.7", "", "localhost@evil.example", "a b"]
)
def test_other_host_names_are_refused(client: Any, host: str) -> None:
    answer = client.get("/api/v1/runs", headers={"host": host})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8642", "127.0.0.1:1", "[::1]:8642", "localhost.", "127.0.0.5:1"]
)
def test_own_names_are_answered(client: Any, host: str) -> None:
    assert client.get("/api/v1/about", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "https://evil.example", "sec-fetch-site": "same-origin"},
        {"origin": "null", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    ],
)
def test_pages_of_other_sites_are_refused(client: Any, headers: dict[str, str]) -> None:
    for send in (client.get, client.post):
        assert send("/api/v1/runs/slots/intervene", headers=headers).status_code == 403


def test_a_link_from_elsewhere_may_open_the_page(client: Any) -> None:
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client.get("/", headers=headers).status_code == 200
    assert client.get("/api/v1/about", headers={"origin": "http://127.0.0.1"}).status_code == 200


@pytest.mark.parametrize(
    "address", ["/api/v1/about", "/api/v1/openapi.json", "/api/v1/runs/slots/images/test/0/thumbnail"]
)
def test_without_the_token_nothing_is_answered(guarded: Any, address: str) -> None:
    for headers in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"},
        {"cookie": f"conceptlens={TOKEN}"},
    ):
        answer = guarded.get(address, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "token")
    assert guarded.get(f"{address}?token={TOKEN}").status_code == 401  # addresses are written down; secrets are not
    assert guarded.get(address, headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_form_gives_a_cookie_that_is_not_the_token(guarded: Any) -> None:
    for address in ("/", "/static/js/main.js"):
        page = guarded.get(address)
        assert page.status_code == 401
        assert "<form" in page.text
        assert "<script" not in page.text
    assert guarded.post("/login", content="token=wrong").status_code == 401
    entered = guarded.post("/login", content=f"token={TOKEN}")
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert TOKEN not in cookie
    assert guarded.get("/api/v1/about").json()["token"] is True  # the client keeps its cookies
    assert guarded.get("/").status_code == 200
    evil = {"origin": "https://evil.example", "sec-fetch-site": "same-origin"}
    assert guarded.post("/login", content=f"token={TOKEN}", headers=evil).status_code == 403
    assert guarded.get("/login", headers={"host": "evil.example"}).status_code == 403


def test_a_guarded_server_is_called_by_address_or_name(guarded: Any) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    for host, status in (("10.0.0.7:80", 200), ("cells.local", 200), ("evil.example", 403), ("[fe80::1]", 200)):
        assert guarded.get("/api/v1/about", headers={**headers, "host": host}).status_code == status


def test_a_proxy_may_put_its_own_name_into_host(guarded: Any) -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "host": "127.0.0.1:8642"}
    for origin, status in (("https://cells.local", 200), ("https://cells.local:99", 403), ("https://evil", 403)):
        assert guarded.get("/api/v1/about", headers={**headers, "origin": origin}).status_code == status


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.5", "127.1", "localhost", "::1"])
def test_any_loopback_address_can_be_listened_on(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONCEPTLENS_TOKEN", raising=False)
    options = Options(host, 0)
    try:
        taken = listen(options)
    except UserError:
        pytest.skip(f"this machine has no {host}")
    address, port = taken.getsockname()[:2]
    taken.close()
    policy = make_policy(options, pytest.fail, address)
    assert policy.token is None
    for name in {host, address}:
        policy.check("POST", "/", {"host": f"[{name}]:{port}" if ":" in name else f"{name}:{port}"})


def test_an_address_that_is_none_is_a_sentence() -> None:
    with pytest.raises(UserError, match="cannot listen there"):
        listen(Options("no.such.host.invalid", 0))
    with pytest.raises(UserError, match="cannot listen there"):
        listen(Options("a" * 70, 0))


def test_other_addresses_need_a_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CONCEPTLENS_TOKEN", raising=False)
    said: list[str] = []
    assert make_policy(Options(), said.append).token is None
    assert said == []
    made = make_policy(Options("0.0.0.0"), said.append)
    assert made.token is not None
    assert len(made.token) > 40
    assert made.token in said[0]
    assert made.token not in repr(made)
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n", "utf-8")
    said.clear()
    assert make_policy(Options("0.0.0.0", token_file=str(file)), said.append).token == TOKEN
    assert said == []
    monkeypatch.setenv("CONCEPTLENS_TOKEN", TOKEN)
    assert make_policy(Options(), said.append).token == TOKEN
    with pytest.raises(UserError, match="16 or more"):
        check_token("short")
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "10.1.1.1", "a.b")] == [
        True,
        True,
        True,
        False,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"", 400, "bad-request"),
        (b"not an image", 415, "format"),
        (png(8, 8)[:45], 400, "bad-request"),
        (b"GIF89a" + b"\0" * 40, 415, "format"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 415, "format"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415, "format"),
        (bomb(20_000, 20_000), 413, "too-large"),
    ],
    ids=["nothing", "words", "cut short", "gif", "eps", "svg", "bomb"],
)
def test_uploads_that_are_refused(client: Any, data: bytes, status: int, code: str) -> None:
    answer = client.post("/api/v1/runs/slots/prediction", content=data)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_uploads_are_limited_in_bytes_and_pixels(world: World) -> None:
    with client_of(world.root, limits=Limits(bytes=3000, pixels=10_000)) as client:
        address = "/api/v1/runs/slots/prediction"
        assert client.post(address, content=png(100, 100)).status_code == 200
        assert client.post(address, content=png(101, 100)).status_code == 413
        assert client.post(address, content=png(10, 10) + b"\0" * 4000).status_code == 413
        chunks = (b"\0" * 1000 for _ in range(1000))  # without a length in advance
        assert client.post(address, content=chunks).status_code == 413
        assert client.post("/api/v1/runs/slots/flip", content=b" " * 5_000_000).status_code == 413


def test_long_chains_of_pages_are_refused() -> None:
    buffer = io.BytesIO()
    pages = [Image.fromarray(np.zeros((2, 2), dtype=np.uint8)) for _ in range(70)]
    pages[0].save(buffer, "TIFF", save_all=True, append_images=pages[1:])
    with pytest.raises(Problem, match="pages") as caught:
        read_upload(buffer.getvalue(), Limits(), at_least=8)
    assert caught.value.status == 413
    buffer = io.BytesIO()
    pages[0].save(buffer, "TIFF", save_all=True, append_images=pages[1:3])
    assert read_upload(buffer.getvalue(), Limits(), at_least=8).size == (2, 2)


def test_an_error_in_our_own_code_tells_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from starlette.testclient import TestClient

    from conceptlens.web.server.app import create_app
    from conceptlens.web.views.runs import RunIndex

    def broken(self: Any) -> Any:
        raise RuntimeError("a secret place: /home/someone")

    monkeypatch.setattr(RunIndex, "cards", broken)
    app = create_app([world.root])
    client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    answer = client.get("/api/v1/runs")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "bug")
    assert "secret" not in answer.text


def test_a_full_queue_answers_busy() -> None:
    import anyio

    from conceptlens.web.server.work_queue import WorkQueue

    async def crowd() -> list[object]:
        queue, found, gate = WorkQueue(1, 2), [], threading.Event()

        async def one() -> None:
            try:
                found.append(await queue.run(gate.wait, 5))
            except Problem as problem:
                found.append(problem.status)

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(one)
            await anyio.sleep(0.1)
            gate.set()
        return found

    assert sorted(map(str, anyio.run(crowd))) == ["503", "503", "True", "True", "True"]


@pytest.fixture
def address(world: World) -> Any:
    """A real server on a real port."""
    import uvicorn

    from conceptlens.web.server.app import create_app
    from conceptlens.web.server.connections import GuardedConnection

    taken = listen(Options(port=0))
    app = create_app([world.root], limits=Limits(seconds=1.0))
    server = uvicorn.Server(uvicorn.Config(app, http=GuardedConnection, ws="none", log_level="error", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield taken.getsockname()[:2]
    server.should_exit = True
    thread.join(10)


def test_slow_clients_keep_only_themselves_waiting(address: tuple[str, int]) -> None:
    import httpx

    base = f"http://{address[0]}:{address[1]}"
    slow = [socket.create_connection(address) for _ in range(40)]
    for line in slow[:20]:
        line.sendall(b"GET /api/v1/runs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")  # and never more
    head = "POST /api/v1/runs/slots/prediction HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100000\r\n\r\nabc"
    for line in slow[20:]:
        line.sendall(head.encode())
    assert httpx.get(f"{base}/api/v1/about", timeout=5).status_code == 200
    assert httpx.get(f"{base}/api/v1/runs/slots/images/test/0/prediction", timeout=20).status_code == 200
    slow[-1].settimeout(10)
    assert b" 408 " in slow[-1].recv(4096)
    for line in slow:
        line.close()


def test_sixteen_clients_at_once(address: tuple[str, int]) -> None:
    import httpx

    base = f"http://{address[0]}:{address[1]}/api/v1/runs/slots"
    told = httpx.get(f"{base}/images/test/0/prediction", timeout=30).json()
    statuses: list[int] = []

    def work(number: int) -> None:
        with httpx.Client(timeout=60) as client:
            for step in range(2):
                statuses.append(client.get(f"{base}/images/test/{(number + step) % 5}/prediction").status_code)
                statuses.append(client.get(f"{base}/images/test/{step}/thumbnail").status_code)
                body = {"state": told["state"], "edits": told["truth_edits"]}
                statuses.append(client.post(f"{base}/intervene", json=body).status_code)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * (16 * 6)


def test_the_body_of_an_error() -> None:
    body = error_body(Problem(409, "missing", "ä", command="conceptlens localize x"))
    assert re.fullmatch(rb'\{"schema": 1, "error": \{.*"command": "conceptlens localize x"\}\}', body)
    assert RequestMiddleware  # the application always has it


def test_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["serve", str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["serve", str(tmp_path), "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot listen" in capsys.readouterr().err
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "fastapi" else found(name, *rest)
    )
    assert main(["serve", str(tmp_path)]) == 2
    assert "pip install 'conceptlens[page]'" in capsys.readouterr().err
