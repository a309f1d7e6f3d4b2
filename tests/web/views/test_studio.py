"""The studio's addresses: what commands wrote, and what the model is asked, with its limits."""

import asyncio
import base64
import io
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

pytest.importorskip("fastapi", reason="the page needs the extra `page`")

from conceptlens.cortex.extractors.trained import probabilities
from conceptlens.cortex.study import open_study
from conceptlens.web.schemas.studio import EditEvent
from conceptlens.web.server.client_limit import ClientLimit
from conceptlens.web.server.problems import Problem
from conceptlens.web.server.work_queue import WorkQueue
from conceptlens.web.views.studio import model_of
from conceptlens.web.views.studio_edits import EditJobs, told
from tests.web.conftest import World, client_of
from tests.web.studio_world import make_studies, without_model

BASE = "/api/v1/runs/shapes/studio"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_studies(tmp_path_factory.mktemp("studio"))


@pytest.fixture(scope="module")
def client(runs: Path) -> Iterator[Any]:
    with client_of(runs) as made:
        yield made


@pytest.fixture(scope="module")
def about(client: Any) -> dict[str, Any]:
    found: dict[str, Any] = client.get(BASE).json()
    return found


@pytest.fixture(scope="module")
def reading(client: Any, about: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"{BASE}/images/{about['images'][0]['row']}").json()
    return found


def pixels(address: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(address.removeprefix("data:image/png;base64,"))))


def test_a_study_is_told_from_its_files(client: Any, about: dict[str, Any]) -> None:
    assert about["concepts"] == ["round", "square", "<b>long</b>"]
    assert about["grid"] == [8, 8]
    assert (about["codes"], about["network"], about["source"]) == (24, "CE", "generated")
    assert about["model"]["here"]
    assert [each["concept"] for each in about["images"]] == [0, 1, 2, 0, 1, 2]
    assert set(about["has"]) == {"tokens", "edit", "search"}
    assert about["missing"]["bias"].startswith("conceptlens codebook bias ")
    assert "images" not in about["missing"]
    assert "--to '<b>long</b>'" not in json.dumps(about["missing"])  # an edit is there
    answer = client.get(BASE)
    assert client.get(BASE, headers={"If-None-Match": answer.headers["etag"]}).status_code == 304


def test_a_written_image_has_what_the_model_says(runs: Path, about: dict[str, Any], reading: dict[str, Any]) -> None:
    study = open_study(runs / "shapes", device=torch.device("cpu"))
    row = about["images"][0]["row"]
    tokens = study.samples["test"].tokens[row].long()
    assert reading["tokens"] == tokens.tolist()
    expected = probabilities(study.extractor, study.embed(tokens[None]))[0].tolist()
    assert reading["probabilities"] == pytest.approx(expected, abs=1e-4)
    assert {each["concept"] for each in reading["heat"]} == {0, 1, 2}
    assert all(len(each["levels"]) == 64 and max(map(abs, each["levels"])) == 255 for each in reading["heat"])
    apart = torch.cdist(study.codebook, study.codebook).fill_diagonal_(torch.inf)
    for token, near in reading["near"].items():
        assert near[0]["code"] == int(apart[int(token)].argmin())


def test_pictures(client: Any, about: dict[str, Any], reading: dict[str, Any]) -> None:
    answer = client.get(reading["picture"])
    assert answer.headers["content-type"] == "image/png"
    assert Image.open(io.BytesIO(answer.content)).size == (32, 32)
    for address in about["pictures"].values():
        assert client.get(address).content.startswith(b"\x89PNG")
    assert client.get(f"{BASE}/images/99999/picture").status_code == 409
    assert client.get(f"{BASE}/pictures/..%2Frun").status_code in (404, 422)


def test_results_are_the_files(client: Any, runs: Path) -> None:
    assert client.get(f"{BASE}/results/edit").content == (runs / "shapes/codebook/edit.json").read_bytes()
    lacking = client.get(f"{BASE}/results/bias")
    assert lacking.status_code == 409
    assert lacking.json()["error"]["command"].startswith("conceptlens codebook bias")
    found = client.get("/api/v1/runs/sizes/studio/results/bias").json()
    assert [table["n"] for table in found["tables"]] == [4, 6]
    (pair,) = found["tables"][0]["pairs"]
    low, high = pair["permuted"]
    assert -1 <= low <= high <= 1


def test_importance_asked_for_is_the_one_that_was_written(client: Any, reading: dict[str, Any]) -> None:
    for written in reading["heat"]:
        body = {"client": "a", "tokens": reading["tokens"], "concept": written["concept"]}
        found = client.post(f"{BASE}/importance", json=body).json()["heat"]
        assert found["most"] == pytest.approx(written["most"], rel=1e-4)
        assert found["levels"] == pytest.approx(written["levels"], abs=1)
    assert client.post(f"{BASE}/importance", json=body | {"concept": 3}).status_code == 400


def test_hidden_tokens(client: Any, runs: Path, reading: dict[str, Any]) -> None:
    study = open_study(runs / "shapes", device=torch.device("cpu"))
    body = {"client": "a", "tokens": reading["tokens"], "cells": [0, 9]}
    answer = client.post(f"{BASE}/mask", json=body).json()
    assert answer["hidden"] == [0, 9]
    assert answer["before"] == pytest.approx(reading["probabilities"], abs=1e-4)
    embedded = study.embed(torch.tensor([reading["tokens"]]))
    embedded[0, :, 0, 0] = embedded[0, :, 1, 1] = study.codebook.mean(0)
    assert answer["after"] == pytest.approx(probabilities(study.extractor, embedded)[0].tolist(), abs=1e-4)
    assert pixels(answer["picture"]).size == (32, 32)
    alike = client.post(f"{BASE}/mask", json=body | {"hide": "ids"}).json()["hidden"]
    flat = [token for row in reading["tokens"] for token in row]
    assert alike == [cell for cell, token in enumerate(flat) if token in (flat[0], flat[9])]
    black = client.post(f"{BASE}/mask", json=body | {"fill": "black"}).json()
    assert pixels(black["picture"]).getpixel((1, 1)) == (0, 0, 0)


def test_generate_and_encode(client: Any, runs: Path) -> None:
    body = {"client": "a", "condition": "square", "seed": 3}
    made = client.post(f"{BASE}/generate", json=body).json()
    assert made["concept"] == 1
    assert made == client.post(f"{BASE}/generate", json=body).json()
    assert made["tokens"] != client.post(f"{BASE}/generate", json=body | {"seed": 4}).json()["tokens"]
    wrong = client.post(f"{BASE}/generate", json=body | {"condition": "sqare"})
    assert wrong.status_code == 400
    assert "square" in wrong.json()["error"]["message"]
    buffer = io.BytesIO()
    Image.new("RGB", (50, 40), (200, 30, 30)).save(buffer, "PNG")
    given = client.post(f"{BASE}/encode?client=a", content=buffer.getvalue())
    assert len(given.json()["tokens"]) == 8
    assert client.post(f"{BASE}/encode?client=a", content=b"nothing").status_code == 415


def events(answer: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.text.splitlines()]


def test_an_edit_is_told_step_by_step(client: Any, reading: dict[str, Any]) -> None:
    cells = [18, 19, 26, 27]
    body = {"client": "a", "tokens": reading["tokens"], "cells": cells, "target": "square", "steps": 30}
    answer = client.post(f"{BASE}/edit", json=body)
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    *steps, last = events(answer)
    assert [each["step"] for each in steps] == list(range(30))
    assert sum("picture" in each for each in steps) == 6
    assert last["kind"] == "done"
    assert last["probability"] == pytest.approx(last["reading"]["probabilities"][1], abs=1e-5)
    assert last["probability"] >= max(each["probability"] for each in steps) - 1e-4  # the best draw is kept
    after = [token for row in last["reading"]["tokens"] for token in row]
    before = [token for row in reading["tokens"] for token in row]
    differing = [cell for cell in range(64) if after[cell] != before[cell]]
    assert differing == [each["row"] * 8 + each["column"] for each in last["changed"]]
    assert set(differing) <= set(cells)
    assert events(client.post(f"{BASE}/edit", json=body))[-1]["reading"]["tokens"] == last["reading"]["tokens"]


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"target": "rond"}, 400, "target"),
        ({"cells": [64]}, 400, "0 to 63"),
        ({"cells": []}, 422, "cells"),
        ({"tokens": [[1] * 8] * 7}, 400, "8 rows of 8"),
        ({"tokens": [[24] * 8] * 8}, 400, "0 to 23"),
        ({"steps": 501}, 422, "steps"),
        ({"client": "a b"}, 422, "client"),
        ({"method": "magic"}, 422, "method"),
    ],
)
def test_edits_that_mean_nothing(
    client: Any, reading: dict[str, Any], change: dict[str, Any], status: int, words: str
) -> None:
    body = {"client": "a", "tokens": reading["tokens"], "cells": [0], "target": "round", "steps": 2}
    answer = client.post(f"{BASE}/edit", json=body | change)
    assert answer.status_code == status
    assert words in answer.json()["error"]["message"]


def test_a_region_that_is_too_large_is_refused(
    client: Any, reading: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conceptlens.web.views.studio_edits.MOST", 24 * 2)
    body = {"client": "a", "tokens": reading["tokens"], "cells": [0, 1, 2], "target": "round"}
    answer = client.post(f"{BASE}/edit", json=body)
    assert answer.status_code == 413
    assert "At most 2 tokens" in answer.json()["error"]["message"]


def test_an_edit_that_takes_too_long_keeps_the_best(
    client: Any, reading: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conceptlens.web.views.studio_edits.SECONDS", 0.0)
    body = {"client": "a", "tokens": reading["tokens"], "cells": [0], "target": "round", "steps": 400}
    *steps, last = events(client.post(f"{BASE}/edit", json=body))
    assert len(steps) == 1
    assert last["stopped"]


def test_without_its_model_a_study_is_still_shown(runs: Path, tmp_path: Path, reading: dict[str, Any]) -> None:
    with client_of(without_model(runs, tmp_path)) as client:
        base = "/api/v1/runs/alone/studio"
        about = client.get(base).json()
        assert not about["model"]["here"]
        assert about["model"]["why"].endswith("gone is not there any more")
        row = about["images"][0]["row"]
        assert client.get(f"{base}/images/{row}").json()["tokens"] == reading["tokens"]
        refused = client.post(f"{base}/mask", json={"client": "a", "tokens": reading["tokens"], "cells": [0]})
        assert refused.status_code == 409
        assert "cannot be opened" in refused.json()["error"]["message"]


def test_a_copy_without_the_built_in_weights_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = {"model": {"name": "builtin/cells"}}
    assert model_of(info).here
    monkeypatch.setattr("conceptlens.cortex.generators.open.PACKAGED", tmp_path)
    found = model_of(info)
    assert not found.here
    assert "built-in generator" in (found.why or "")


def test_folders_that_are_none_or_damaged(world: World, runs: Path, tmp_path: Path) -> None:
    copy = without_model(runs, tmp_path) / "alone"
    (copy / "codebook/grids.json").write_text('{"schema": 1, "images": [{}]}', "utf-8")
    (copy / "codebook/edit.json").write_text("{", "utf-8")
    with client_of(world.root, copy.parent) as client:
        other = client.get("/api/v1/runs/slots/studio")
        assert other.status_code == 409
        assert "a trained model" in other.json()["error"]["message"]
        for rest in ("", "/images/0", "/results/edit"):
            broken = client.get(f"/api/v1/runs/alone/studio{rest}")
            assert (broken.status_code, broken.json()["error"]["code"]) == (409, "broken"), rest


def test_one_thing_at_a_time_for_a_client() -> None:
    async def go() -> None:
        per_client = ClientLimit(WorkQueue(1, 4, full=429))
        first = asyncio.create_task(per_client.run("me", lambda: time.sleep(0.2)))
        await asyncio.sleep(0.05)
        with pytest.raises(Problem) as refused:
            await per_client.run("me", lambda: None)
        assert refused.value.status == 429
        await per_client.run("you", lambda: None)
        await first
        await per_client.run("me", lambda: None)

    asyncio.run(go())


def test_edits_wait_are_refused_and_end_with_their_listener() -> None:
    async def go() -> None:
        jobs = EditJobs(WorkQueue(1, 5, full=429), most=2)
        ended: list[str] = []
        running = threading.Event()

        def work(name: str) -> Any:
            def search(tell: Any, gone: Any) -> None:
                running.set()
                for step in range(400):
                    tell(EditEvent(kind="step", step=step, probability=0.5))
                    if gone():
                        ended.append(f"{name} stopped")
                        return
                    time.sleep(0.01)
                ended.append(f"{name} done")

            return search

        first = jobs.start("one", work("one"))
        with pytest.raises(Problem, match="still running") as same:
            jobs.start("one", work("again"))
        assert same.value.status == 429
        second = jobs.start("two", work("two"))
        with pytest.raises(Problem, match="2 edits") as full:
            jobs.start("three", work("three"))
        assert (full.value.status, full.value.wait) == (429, 10)
        lines = told(second)
        assert json.loads(await anext(lines)) == {"kind": "waiting", "ahead": 1}
        await lines.aclose()  # type: ignore[attr-defined]
        heard = told(first)
        assert json.loads(await anext(heard))["step"] == 0
        assert running.is_set()
        await heard.aclose()  # type: ignore[attr-defined]
        for _ in range(100):
            await asyncio.sleep(0.01)
            if ended:
                break
        assert ended == ["one stopped"]  # the other never began
        await asyncio.sleep(0.02)
        third = jobs.start("one", lambda tell, gone: tell(EditEvent(kind="failed", message="x")))
        assert [json.loads(line)["kind"] async for line in told(third)] == ["failed"]

    asyncio.run(go())
