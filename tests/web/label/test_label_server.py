"""The labeling page's server: only who has the token, answers kept at once, undo, finish."""

import errno
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from conceptlens.web.label.server import LabelServer
from conceptlens.workflows.label.labeling import Labeling


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LabelServer]:
    for number in range(4):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / f"{number}.png")
    (tmp_path / "t.csv").write_text("image,class\n" + "".join(f"{n}.png,{'ab'[n % 2]}\n" for n in range(4)))
    (tmp_path / "c.yaml").write_text("classes: [a, b]\ngroups:\n  border: {values: [sharp, blurred]}\n")
    (tmp_path / "r.yaml").write_text("data: t.csv\nconcepts: c.yaml\n")
    monkeypatch.setattr(Labeling, "features", np.eye(4))
    made = LabelServer(Labeling(tmp_path / "r.yaml", "ann"), n=3)
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def call(server: LabelServer, path: str, body: Any = None, token: str | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"X-Token": server.token if token is None else token}
    url = f"http://127.0.0.1:{server.server_address[1]}{path}"
    with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as reply:
        content = reply.read()
        return json.loads(content) if reply.headers["Content-Type"] == "application/json" else content


def test_from_the_first_image_to_the_table(server: LabelServer) -> None:
    assert b"Label concepts" in call(server, "/")
    first = call(server, "/next")
    assert first["left"] == 3
    assert first["questions"] == [{"name": "border", "values": ["sharp", "blurred"]}]
    picture = call(server, f"/image?token={server.token}&id={first['image']}")
    assert picture.startswith(b"\x89PNG")
    second = call(server, "/answer", {"image": first["image"], "answers": {"border": "sharp"}})
    assert second["image"] != first["image"]
    back = call(server, "/undo", {})
    assert (back["image"], back["answers"]) == (first["image"], {"border": "sharp"})
    call(server, "/answer", {"image": first["image"], "answers": {"border": "blurred"}})
    assert "1 of 4 images" in call(server, "/done", {})["text"]
    assert f"{first['image']}," in server.labeling.table.read_text()
    assert "blurred" in server.labeling.table.read_text()


def test_strangers_and_nonsense_are_refused(server: LabelServer) -> None:
    for path, body, token, code in (
        ("/next", None, "", 403),
        ("/done", {}, "wrong", 403),
        ("/image?token=x&id=0.png", None, None, 404),
        (f"/image?token={server.token}&id=../t.csv", None, None, 404),
        ("/answer", {"image": "0.png", "answers": {"border": "green"}}, None, 400),
        ("/answer", [], None, 400),
        ("/answer", {"image": "\ud800", "answers": {}}, None, 400),
        ("/undo", {}, None, 400),
        ("/else", {}, None, 404),
    ):
        with pytest.raises(urllib.error.HTTPError) as error:
            call(server, path, body, token)
        assert error.value.code == code
    assert server.report is None


def test_by_keyboard_in_a_browser(server: LabelServer, chromium: Any) -> None:
    page = chromium.new_page()
    page.route("**/next", lambda route: None)  # the images are still being looked at
    page.goto(server.address)
    assert not page.is_visible("#image")
    assert "Looking at the images" in page.inner_text("#state")
    page.unroute("**/next")
    page.goto(server.address)
    page.wait_for_function("document.getElementById('image').naturalWidth === 8")
    assert page.inner_text("#head") == "3 images to go in this round"
    assert page.inner_text("#rater") == "ann has labeled 0 of 4 images"
    assert page.inner_text("#state") == ""
    first = page.inner_text("#name")
    page.keyboard.press("Enter")
    page.wait_for_function("document.getElementById('state').textContent.startsWith('Answer a question first')")
    page.keyboard.press("2")
    page.keyboard.press("Enter")
    page.wait_for_function("name => document.getElementById('name').textContent !== name", arg=first)
    page.keyboard.press("z")
    page.wait_for_function("name => document.getElementById('name').textContent === name", arg=first)
    assert page.locator("[aria-pressed=true]").all_inner_texts() == ["2blurred"]
    page.keyboard.press("Enter")
    page.wait_for_function("document.getElementById('head').textContent === '2 images to go in this round'")
    page.reload()  # what was kept is not asked again
    page.wait_for_function("document.getElementById('head').textContent === '2 images to go in this round'")
    assert page.inner_text("#name") != first
    assert page.inner_text("#rater") == "ann has labeled 1 of 4 images"
    page.click("#done")
    page.wait_for_selector("body.over")
    assert "1 of 4 images have concept labels" in page.inner_text("#report")
    assert not page.is_visible("#save")
    page.close()


@pytest.mark.parametrize("length", ["-1", "abc", "9" * 20, "1e3"])
def test_a_body_of_no_length_is_refused_at_once(server: LabelServer, length: str) -> None:
    request = f"POST /answer HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=5) as client:
        client.sendall(request)
        assert b" 413 " in client.recv(200)


def test_any_word_may_stand_where_a_token_should(server: LabelServer) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        call(server, "/next", token="\u00e4")
    assert refused.value.code == 403
    with pytest.raises(urllib.error.HTTPError) as nested:
        call(server, "/answer", "[" * 10)
    assert nested.value.code == 400


def test_who_labels_hears_that_the_disk_is_full(server: LabelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(server.labeling.log, "add", full)
    with pytest.raises(urllib.error.HTTPError) as error:
        call(server, "/answer", {"image": "0.png", "answers": {"border": "sharp"}})
    assert "The disk is full" in json.load(error.value)["error"]


def test_what_strangers_send_leaves_no_traceback(server: LabelServer, capfd: pytest.CaptureFixture[str]) -> None:
    place = ("127.0.0.1", server.server_address[1])
    for method in ("GET", "POST"):
        with socket.create_connection(place, timeout=5) as client:
            client.sendall(f"{method} http://[/ HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n".encode())
            assert b" 400 " in client.recv(200)
    gone = threading.Event()
    server.labeling.source.read = lambda index: gone.wait(5) and Image.new("RGB", (2000, 2000))  # type: ignore[method-assign,assignment,return-value]
    with socket.create_connection(place) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1" + bytes(7))  # closed without a word
        client.sendall(f"GET /image?token={server.token}&id=0.png HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        time.sleep(0.1)
    gone.set()
    time.sleep(0.3)
    assert "Traceback" not in capfd.readouterr().err
