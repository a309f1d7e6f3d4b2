"""Cards, details and histories: from files alone, quickly, and whatever the files hold."""

import json
import os
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.core.files import read_json, write_text
from conceptlens.core.upgrades import SCHEMA
from conceptlens.runs.folder import RunFolder
from conceptlens.web.server.folders import RunFolders
from conceptlens.web.views.runs import RunIndex
from tests.web.conftest import World, client_of


def test_every_run_has_a_card_and_a_broken_one_its_reason(client: Any, world: World) -> None:
    cards = {card["key"]: card for card in client.get("/api/v1/runs").json()["runs"]}
    assert set(cards) == {"slots", "group--whole", "broken"}
    assert cards["broken"]["status"] == "broken"
    assert "expected JSON" in cards["broken"]["reason"]
    card, metrics = cards["slots"], read_json(world.slots / "metrics.json")["splits"]
    assert (card["status"], card["method"], card["regularizer"]) == ("done", "ivq-cbm", "ivq")
    assert card["scores"]["class.accuracy"] == metrics["test"]["class"]["accuracy"]
    assert card["epoch"] == card["epochs"] == 2
    history = RunFolder(world.slots).read_history()
    wanted = [line["rank.effective"] for line in history if "rank.effective" in line]
    assert card["rank"]["values"] == wanted
    assert {"history", "metrics", "model", "predictions", "report"} <= set(card["has"])


def test_a_broken_run_is_refused_with_its_reason(client: Any) -> None:
    for address in ("", "/history", "/images", "/head", "/images/test/0/prediction"):
        answer = client.get(f"/api/v1/runs/broken{address}")
        assert answer.status_code == 409 or address == "/history"
    error = client.get("/api/v1/runs/broken").json()["error"]
    assert error["code"] == "broken"
    assert "run.json" in error["message"]


def test_detail(client: Any, world: World) -> None:
    found = client.get("/api/v1/runs/slots").json()
    assert found["metrics"] == read_json(world.slots / "metrics.json")["splits"]
    assert found["splits"] == {
        side: len(names) for side, names in read_json(world.slots / "splits.json")["splits"].items()
    }
    assert found["recipe"]["data"]["source"] == "shapes"
    assert found["missing"]["leakage"].startswith("conceptlens leakage ")
    starts = [group["start"] for group in found["groups"]]
    sizes = [len(group["values"]) for group in found["groups"]]
    assert starts == [sum(sizes[:place]) for place in range(len(sizes))]


def test_a_run_appears_and_goes(own_world: World) -> None:
    index = RunIndex(RunFolders([own_world.root]))
    assert len(index.cards()) == 3
    shutil.copytree(own_world.slots, own_world.root / "later")
    shutil.rmtree(own_world.whole)
    time.sleep(1.1)
    assert {card.key for card in index.cards()} == {"slots", "broken", "later"}


def test_keys_are_plain_and_apart(own_world: World, tmp_path: Path) -> None:
    for name in ("später / 1".replace("/", "-"), "spater - 1", "a b"):
        shutil.copytree(own_world.slots, own_world.root / name)
    other = tmp_path / "other" / "slots"
    shutil.copytree(own_world.slots, other)
    entries = RunFolders([own_world.root, other]).all()
    keys = [entry.key for entry in entries]
    assert len(set(keys)) == len(keys) == 7
    assert all(key.replace("-", "").replace(".", "").replace("_", "").isalnum() and key.isascii() for key in keys)
    assert keys == [entry.key for entry in RunFolders([own_world.root, other]).all()]


def test_two_hundred_runs_at_once(own_world: World) -> None:
    for number in range(200):
        folder = own_world.root / f"many-{number:03}"
        folder.mkdir()
        for name in ("run.json", "metrics.json", "history.jsonl", "recipe.yaml"):
            shutil.copy(own_world.slots / name, folder / name)
    index = RunIndex(RunFolders([own_world.root]))
    began = time.process_time()
    assert len(index.cards()) == 203
    assert time.process_time() - began < 1
    began = time.process_time()
    index.cards()
    assert time.process_time() - began < 0.5


def test_a_history_is_read_on_from_its_cursor(own_world: World) -> None:
    with client_of(own_world.root) as client:
        address = "/api/v1/runs/slots/history"
        file = own_world.slots / "history.jsonl"
        whole = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        first = client.get(address)
        assert first.json()["lines"] == whole
        cursor = first.json()["cursor"]
        nothing = client.get(address, params={"after": cursor})
        assert (nothing.json()["lines"], nothing.json()["reset"]) == ([], False)
        same = client.get(address, params={"after": cursor}, headers={"If-None-Match": nothing.headers["etag"]})
        assert (same.status_code, same.content) == (304, b"")
        (own_world.slots / manifest.NAME).unlink()  # as while it trains: only a finished history is in the manifest
        with file.open("a", encoding="utf-8") as out:
            out.write('{"epoch": 3, "split": "val"}\n{"epoch": 4')  # the last line is not complete yet
        more = client.get(address, params={"after": cursor}).json()
        assert more["lines"] == [{"epoch": 3, "split": "val"}]
        with file.open("a", encoding="utf-8") as out:
            out.write("}\n")
        assert client.get(address, params={"after": more["cursor"]}).json()["lines"] == [{"epoch": 4}]
        file.write_text('{"epoch": 1}\n' * 500, "utf-8")  # resumed: other lines stand there now
        anew = client.get(address, params={"after": more["cursor"]}).json()
        assert (anew["reset"], len(anew["lines"])) == (True, 500)
        assert client.get(address, params={"after": "nonsense"}).status_code == 400


def test_a_run_that_trains_has_a_history_and_no_model(own_world: World) -> None:
    RunFolder(own_world.slots).update(status="running")
    shutil.rmtree(own_world.slots / "model")
    with client_of(own_world.root) as client:
        assert client.get("/api/v1/runs/slots/history").json()["status"] == "running"
        detail = client.get("/api/v1/runs/slots").json()
        assert (detail["classes"], detail["card"]["status"]) == (None, "running")
        error = client.get("/api/v1/runs/slots/images/test/0/prediction").json()["error"]
        assert (error["code"], error["command"].split()[:2]) == ("missing", ["conceptlens", "resume"])


def test_links_that_lead_out_are_not_followed(own_world: World, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    shutil.copytree(own_world.slots, secret)
    (own_world.root / "link").symlink_to(secret)
    (own_world.slots / "metrics.json").unlink()
    (own_world.slots / "metrics.json").symlink_to(secret / "metrics.json")
    with client_of(own_world.root) as client:
        cards = {card["key"]: card for card in client.get("/api/v1/runs").json()["runs"]}
        assert cards["link"]["status"] == cards["slots"]["status"] == "broken"
        assert "leads out" in cards["link"]["reason"]
        assert "leads out" in cards["slots"]["reason"]
        assert client.get("/api/v1/runs/link").status_code == 409
        assert client.get("/api/v1/runs/slots/documents/metrics").status_code == 409
        assert client.get("/api/v1/runs/slots/images/test/0/prediction").status_code == 409


@pytest.mark.parametrize(
    "name", ["../secret", "..%2Fsecret", "%2e%2e%2fsecret", "slots%2F..%2F..%2Fsecret", "%2e", "%2e%2e"]
)
def test_names_do_not_climb(client: Any, name: str) -> None:
    for address in (f"/api/v1/runs/{name}", f"/api/v1/runs/{name}/documents/metrics", f"/static/{name}"):
        assert client.get(address).status_code in (404, 405, 422)


def test_documents(own_world: World) -> None:
    (own_world.slots / "trust").mkdir()
    write_text(own_world.slots / "trust" / "leakage.json", '{"schema": 1, "leaks": null}')
    with client_of(own_world.root) as client:
        address = "/api/v1/runs/slots/documents"
        assert client.get(f"{address}/leakage").json() == {"schema": SCHEMA, "leaks": None}  # upgraded
        assert client.get(f"{address}/metrics").json() == read_json(own_world.slots / "metrics.json")
        error = client.get(f"{address}/localization")
        assert error.status_code == 409
        assert error.json()["error"]["command"] == f"conceptlens localize {own_world.slots}"
        assert client.get(f"{address}/passwd").status_code == 404


def test_folders_that_are_not_there_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        RunFolders([tmp_path / "nowhere"])
    empty = tmp_path / "empty"
    empty.mkdir()
    (entry,) = RunFolders([empty]).all()
    assert "no run in this folder" in (entry.reason or "")


DEEP = b'{"schema": 3, "status": "done", "data": ' + b"[" * 100_000
ODD_FILES: dict[str, tuple[str, bytes]] = {
    "deep run.json": ("run.json", DEEP),
    "deep metrics.json": ("metrics.json", DEEP),
    "deep splits.json": ("splits.json", DEEP),
    "no class in model.json": ("model/model.json", b'{"schema": 3, "task": "single"}'),
    "weights that are none": ("model/weights.safetensors", b"\xff" * 100),
    "predictions that are none": ("predictions/test.safetensors", b"\xff" * 100),
    "a damaged history line": (
        "history.jsonl",
        b'{"epoch": 0, "split": "val", "rank.effective": 1}\n{"epo\n{"epoch": 1}\n',
    ),
    "a measure that is no number": ("metrics.json", b'{"schema": 3, "splits": {"val": {"class": NaN}}}'),
    "a run without data": ("run.json", b'{"schema": 3, "status": "done", "method": "cbm", "data": {}}'),
    "a kind that is a list": ("run.json", b'{"schema": 3, "status": "done", "kind": [[1]], "data": {}}'),
    "splits that are numbers": ("splits.json", b'{"schema": 3, "splits": {"train": 0, "test": true}}'),
    "a huge number": ("metrics.json", b'{"schema": 3, "splits": {"test": {"class": {"n": ' + b"9" * 5000 + b"}}}}"),
}


@pytest.mark.parametrize("kind", ODD_FILES)
def test_one_bad_folder_leaves_the_others(own_world: World, kind: str) -> None:
    name, content = ODD_FILES[kind]
    shutil.rmtree(own_world.whole)
    bad = own_world.root / "bad"
    shutil.copytree(own_world.slots, bad)
    (bad / manifest.NAME).unlink()  # a stranger's folder, which nothing vouches for
    (bad / name).write_bytes(content)
    client = client_of(own_world.root)
    cards = {card["key"]: card for card in client.get("/api/v1/runs").json()["runs"]}
    assert cards["slots"]["status"] == "done"
    assert not cards["slots"]["unverified"]
    assert cards["bad"]["reason"] or (cards["bad"]["status"] == "done" and cards["bad"]["unverified"])
    table = {row["key"]: row for row in client.get("/api/v1/table").json()["rows"]}
    assert table["slots"]["metrics"]
    assert client.get("/api/v1/methods/ivq-cbm/evidence").status_code == 200
    for address in (
        "",
        "/graphs/image",
        "/history",
        "/concepts",
        "/head",
        "/images?split=test",
        "/images/test/0/prediction",
        "/codebook",
    ):
        answer = client.get(f"/api/v1/runs/bad{address}")
        assert answer.status_code < 500, (address, answer.text)


def test_a_pipe_in_a_run_folder_is_not_waited_for(own_world: World) -> None:
    (own_world.slots / "history.jsonl").unlink()
    os.mkfifo(own_world.slots / "history.jsonl")
    client = client_of(own_world.root)
    assert len(client.get("/api/v1/runs").json()["runs"]) == 3
    assert client.get("/api/v1/runs/slots/history").json()["lines"] == []


def test_half_of_a_character_leaves_the_others(own_world: World) -> None:
    (own_world.slots / manifest.NAME).unlink()
    file = own_world.slots / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), "method": "\ud800"}), "utf-8")
    cards = {card["key"]: card for card in client_of(own_world.root).get("/api/v1/runs").json()["runs"]}
    assert cards["group--whole"]["status"] == "done"
    assert "surrogates not allowed" in cards["slots"]["reason"]


@pytest.mark.skipif(sys.platform != "linux", reason="here names of folders are text")
def test_a_folder_whose_name_is_no_text_leaves_the_others(own_world: World) -> None:
    own_world.whole.rename(own_world.root / os.fsdecode(b"bad\xff"))
    cards = {card["name"]: card for card in client_of(own_world.root).get("/api/v1/runs").json()["runs"]}
    assert cards["slots"]["status"] == "done"
    assert "not UTF-8. Rename it" in next(card["reason"] or "" for name, card in cards.items() if "bad" in name)


def test_two_views_that_open_at_once_read_each_folder_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from conceptlens.web.views import runs

    read, card = [], runs._card

    def slow(entry: Any, *given: Any) -> Any:
        read.append(entry.key)
        time.sleep(0.02)
        return card(entry, *given)

    monkeypatch.setattr(runs, "_card", slow)
    index = runs.RunIndex(RunFolders([world.root]))
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: index.cards(), range(2))
    assert first == second
    assert sorted(read) == ["group--whole", "slots"]
