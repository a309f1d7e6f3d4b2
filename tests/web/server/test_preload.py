"""The page's own files from memory, and what is made ready before anybody asks."""

import socket
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from tests.web.conftest import World

pytest.importorskip("fastapi", reason="the page needs the extra `page`")


def test_a_file_of_the_page_is_sent_once_and_read_again_when_it_changed(tmp_path: Path) -> None:
    from starlette.testclient import TestClient

    from conceptlens.web.server.assets import Assets

    (tmp_path / "inner").mkdir()
    file = tmp_path / "inner" / "a.js"
    file.write_text("one", "utf-8")
    (tmp_path / "link.js").symlink_to(file)
    client: Any = TestClient(Assets(root=tmp_path))
    answer = client.get("/inner/a.js")
    assert (answer.text, answer.headers["content-type"]) == ("one", "text/javascript; charset=utf-8")
    assert client.get("/inner/a.js", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
    file.write_text("another", "utf-8")
    again = client.get("/inner/a.js", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.text) == (200, "another")


def test_a_browser_keeps_files_that_are_named_with_their_version(tmp_path: Path) -> None:
    from starlette.requests import Request

    from conceptlens.web.server.assets import Assets

    (tmp_path / "index.html").write_text('<script type="module" src="static/a.js"></script>', "utf-8")
    (tmp_path / "a.js").write_text("one", "utf-8")
    assets = Assets(root=tmp_path)
    asked = Request({"type": "http", "method": "GET", "headers": []})

    def named() -> str:
        return bytes(assets.page(asked).body).decode().split("static/")[1].split('"')[0]

    def kept(name: str) -> bool:
        return "immutable" in assets.answer(asked, name).headers.get("cache-control", "")

    first = named()
    assert first.startswith("@")
    assert kept(first)
    assert not kept("a.js")
    (tmp_path / "a.js").write_text("another", "utf-8")
    assert not kept(first), "it is not what the page meant"
    second = named()
    assert second != first
    assert kept(second)
    assert not kept(first)


@pytest.mark.parametrize(
    "name", ["nothing.js", "js/", "../server.py", "%2e%2e/server.py", "js/../../server.py", "@0/", ""]
)
def test_no_address_leads_to_another_file(client: Any, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404


def test_files_of_the_page_are_only_read(client: Any) -> None:
    assert client.get("/static/js/main.js").status_code == 200
    assert client.get("/static/study/study.css").status_code == 200
    assert client.post("/static/js/main.js").status_code == 405


def test_the_model_that_the_page_shows_first_is_made_ready(world: World) -> None:
    from conceptlens.web.server.folders import RunFolders
    from conceptlens.web.server.loaded import ModelCache
    from conceptlens.web.server.preload import first_shown, preload
    from conceptlens.web.server.safety import Policy
    from conceptlens.web.server.state import ServerState
    from conceptlens.web.server.uploads import Limits
    from conceptlens.web.server.work_queue import WorkQueues
    from conceptlens.web.views.runs import RunIndex

    state = ServerState(RunIndex(RunFolders([world.root])), ModelCache(4), WorkQueues(), Limits(), Policy())
    cards = state.index.cards()
    card = first_shown(cards)
    assert card is not None
    assert card.key == next(each.key for each in cards if "model" in each.has)
    assert not state.model_cache.ready(state.index.folders.get(card.key))
    preload(state)
    assert state.model_cache.ready(state.index.folders.get(card.key))
    with patch("conceptlens.web.views.run_table.read_json", side_effect=AssertionError("read again")):
        assert any(row.metrics for row in state.table.rows(state.index))
    broken = ServerState(RunIndex(RunFolders([world.root / "broken"])), ModelCache(4), WorkQueues(), Limits(), Policy())
    preload(broken)  # says nothing: whoever asks for it is told


def test_answers_do_not_wait_for_more_to_send() -> None:
    """asyncio turns off Nagle's algorithm only for sockets that are called TCP; the wait was 40 ms an answer."""
    from conceptlens.web.server.serve import Options, listen

    with listen(Options(port=0)) as taken:
        assert taken.proto == socket.IPPROTO_TCP
