"""Damaged run folders: with a manifest an answer is refused or as before; without one, nothing breaks."""

import random
import shutil
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from assault.mutate import mutate_file
from assault.watch import Hang, Part, command, judge, limited
from assault.world import World
from conceptlens.api import leakage
from conceptlens.core import manifest
from conceptlens.web.server.app import create_app

COMMANDS = ("predict", "evaluate", "report", "explain", "leakage", "rehash", "migrate")
_DATASET = "/runs/{run}/dataset/test"
ADDRESSES = (
    *("/runs", "/runs/{run}", "/runs/{run}/history", "/runs/{run}/concepts", "/runs/{run}/codebook"),
    *("/runs/{run}/images?split=test", "/runs/{run}/images/test/0/prediction", "/runs/{run}/images/test/0/thumbnail"),
    *("/runs/{run}/head", "/runs/{run}/corrections", "/runs/{run}/documents/metrics", "/runs/{run}/documents/trust"),
    *("/runs/{run}/comparison", "/runs/{run}/graphs/classes", "/runs/{run}/studio", "/studies"),
    *("/methods/ivq-cbm/evidence", "/runs/{run}/annotations", "/runs/{run}/corrections.csv", "/jobs", "/glossary"),
    *(_DATASET, f"{_DATASET}/places", f"{_DATASET}/places?by=tokens", f"{_DATASET}/sprites/0", f"{_DATASET}/pass"),
    *(f"{_DATASET}/neighbors/0", f"{_DATASET}/suspects", "/runs/{run}/images/test/0/picture"),
)
# What is sent rather than asked for, with its body
SENT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/table/best", {"metric": "class.accuracy", "runs": ["whole", "damaged"]}),
    ("/runs/{run}/annotations", {"author": "Ann", "kind": "image", "of": ["a"], "name": "first"}),
    ("/runs/{run}/corrections", {"rater": "r1", "image": {"split": "test", "row": 0}, "edits": []}),
    (f"{_DATASET}/pass", {}),
    ("/jobs/line", {"command": "leakage", "run": "damaged"}),
)
ALL = ("/runs", "/table")  # of every run; asked for each time


def words_of(name: str, run: Path, world: World) -> list[object]:
    images = [world.data.image(0)] if name in ("predict", "explain") else []
    more = {
        "rehash": ["--check"],
        "leakage": ["--permutations", "3", "--resamples", "10"],
        "explain": ["--out", run / "explain"],
    }
    return [name, run, *images, *more.get(name, []), "--json"]


def files_of(run: Path) -> list[Path]:
    return [file for file in sorted(run.rglob("*")) if file.is_file() and not file.name.startswith(".")]


def assault_commands(part: Part, world: World, seed: int, number: int) -> None:
    """Commands on folders of which one file is damaged."""
    expected: dict[str, Any] = {}
    for name in COMMANDS:
        copy = world.copy_run("reference")
        expected[name] = command(*words_of(name, copy, world)).answer
    for each in range(number):
        draw = random.Random(f"folder {seed} {each}")
        run = world.copy_run("damaged")
        guarded = draw.random() < 0.7
        if not guarded:
            (run / manifest.NAME).unlink()
        what = mutate_file(draw.choice(files_of(run)), draw) + ", guarded" * guarded
        name = draw.choice(COMMANDS)
        ended = command(*words_of(name, run, world))
        accepted = judge(part, each, f"{name}: {what}", ended)
        same = str(expected[name]).replace("reference", "damaged") == str(ended.answer)
        if accepted and guarded and name in ("predict", "evaluate", "explain", "leakage") and not same:
            part.found(each, f"{name}: {what}", "changed", ended.out[:1500])


def assault_page(part: Part, world: World, seed: int, number: int) -> None:
    """The page over a whole run and a damaged one: no server error, and the whole one is always there."""
    home = world.root / "page"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(world.run, home / "whole")
    expected = _statuses(home)
    for each in range(number):
        draw = random.Random(f"page {seed} {each}")
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(world.run, home / "whole")
        shutil.copytree(world.run, home / "damaged")
        (home / "damaged" / manifest.NAME).unlink()
        what = mutate_file(draw.choice(files_of(home / "damaged")), draw)
        app = create_app([home], jobs={"leakage": leakage})
        client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
        asked: list[tuple[str, dict[str, Any] | None]] = [(address, None) for address in ALL]
        asked += [(address, None) for address in draw.sample(ADDRESSES[1:], 6)] + draw.sample(SENT, 2)
        asked.append((draw.choice([each for each in ADDRESSES if "{run}" in each]).format(run="whole"), None))
        for address, body in asked:
            part.attempts += 1
            place = f"/api/v1{address.format(run='damaged')}"
            try:
                with limited():
                    answer = client.get(place) if body is None else client.post(place, json=body)
            except Hang:
                part.found(each, f"{address}: {what}", "hang", "")
                continue
            part.accepted += answer.status_code == 200
            part.refused += answer.status_code in (404, 409, 400, 422)
            if answer.status_code >= 500:
                part.found(each, f"{address}: {what}", "server error", answer.text)
            elif address in ALL:
                if said := _missing(address, answer.json(), (home / "damaged" / "run.json").is_file()):
                    part.found(each, f"{address}: {what}", "lost", said)
            elif "/whole" in address and answer.status_code != expected[address]:
                part.found(each, f"{address}: {what}", "lost", answer.text)


def _missing(address: str, answer: dict[str, Any], is_run: bool) -> str:
    """What a list of all runs should say of the whole run and of the damaged one, and does not; empty if all is
    there."""
    if address == "/table":
        rows = {row["key"]: row for row in answer.get("rows", [])}
        return "" if rows.get("whole", {}).get("metrics") else str(rows)
    states = {card["name"]: card["status"] for card in answer.get("runs", [])}
    return str(states) if states.get("whole") != "done" or ("damaged" not in states and is_run) else ""


def _statuses(home: Path) -> dict[str, int]:
    """How the page answers about a whole run that is alone."""
    client = TestClient(create_app([home]), base_url="http://127.0.0.1", raise_server_exceptions=False)
    addresses = [address.format(run="whole") for address in ADDRESSES if "{run}" in address]
    return {address: client.get(f"/api/v1{address}").status_code for address in addresses}
