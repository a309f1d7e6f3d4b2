"""Every kind of result folder has a card, is found where it lies, and is refused by addresses of another kind."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from conceptlens.cortex.study import KIND as CODEBOOK
from conceptlens.gig.run import KIND as DECOMPOSE
from conceptlens.runs.results import Kind
from conceptlens.web.server.folders import RunFolders
from conceptlens.web.server.kinds import WORDS, WRITTEN, command_for, files, shown_path
from conceptlens.web.views.runs import RunIndex
from conceptlens.workflows.study.make import KIND as STUDY
from tests.web.conftest import World, client_of

INFO: dict[str, dict[str, Any]] = {
    "graph": {"kind": DECOMPOSE, "method": "gig", "model": {"name": "resnet18"}, "data": {"name": "photos"}},
    "codes": {
        "kind": CODEBOOK,
        "method": "cortex",
        "model": {"name": "builtin/cells"},
        "data": {"source": "generated"},
        "conditions": {"big": "cell size=big", "small": "cell size=small"},
    },
    "table": {
        "kind": "compare",
        "method": None,
        "name": "two ways",
        "data": {"name": "shapes, birds"},
        "rows": ["one", "one (random text)", "two"],
    },
    "slots/study": {"kind": STUDY, "data": {"name": "shapes"}, "questions": 20, "catch": 2, "run": "slots"},
    "newer": {"kind": "dream", "data": {}},
}


def write(folder: Path, info: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"schema": 1, "status": "done", **info}), "utf-8")


@pytest.fixture
def kinds(own_world: World) -> Path:
    for name, info in INFO.items():
        write(own_world.root / name, info)
    inner = own_world.root / "table" / "runs" / "shapes-one-s0"
    write(inner, {"kind": "bottleneck", "method": "cbm", "data": {"name": "shapes"}})
    (own_world.root / "graph" / "graph.json").write_text("{}", "utf-8")
    return own_world.root


def test_each_kind_has_a_card_that_says_what_it_is(kinds: Path) -> None:
    cards = {card.key: card for card in RunIndex(RunFolders([kinds])).cards()}
    found = {key: card.kind for key, card in cards.items()}
    assert found == {
        "slots": "bottleneck",
        "group--whole": "bottleneck",
        "graph": "decomposition",
        "codes": "codebook",
        "table": "comparison",
        "slots--study": "study",
        "table--runs--shapes-one-s0": "bottleneck",
        "broken": None,
        "newer": None,
    }
    assert cards["graph"].about == "resnet18, decomposed into concepts layer by layer"
    assert cards["codes"].about == "which tokens of builtin/cells make 2 concepts"
    assert cards["codes"].data == "generated"
    assert cards["table"].about == "two ways: 2 rows, 1 of them again with random text"
    assert cards["slots--study"].about == "20 questions for people about maps of the run slots"
    assert "'dream'" in (cards["newer"].reason or "")
    assert {key: card.within for key, card in cards.items() if card.within} == {
        "slots--study": "slots",
        "table--runs--shapes-one-s0": "table",
    }
    dated = {key for key, card in cards.items() if card.changed}  # by their manifest, which folders made by hand lack
    assert {"slots", "group--whole"} <= dated
    assert cards["graph"].has == ["graph"]


def test_a_comparison_that_is_named_itself_brings_its_trainings(kinds: Path) -> None:
    entries = RunFolders([kinds / "table"]).all()
    assert [(entry.key, entry.within) for entry in entries] == [("table", None), ("runs--shapes-one-s0", "table")]


def test_a_folder_that_changes_its_kind_is_read_again(kinds: Path) -> None:
    index = RunIndex(RunFolders([kinds / "graph"]))
    assert index.cards()[0].kind == "decomposition"
    write(kinds / "graph", INFO["codes"])
    assert index.cards()[0].kind == "codebook"
    (kinds / "graph" / "codebook").mkdir()
    (kinds / "graph" / "codebook" / "bias.json").write_text("{}", "utf-8")
    assert index.cards()[0].has == ["bias"]


def test_addresses_of_models_refuse_other_kinds(kinds: Path) -> None:
    with client_of(kinds) as client:
        for address in ("/images", "/head", "/concepts", "/documents/metrics"):
            answer = client.get(f"/api/v1/runs/table{address}")
            assert answer.status_code == 409
            assert "a comparison of methods" in answer.json()["error"]["message"]
        answer = client.get("/api/v1/runs/slots/comparison")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "missing")
        detail = client.get("/api/v1/runs/codes").json()
        assert detail["missing"]["bias"] == f"conceptlens codebook bias {kinds / 'codes'}"
        assert detail["classes"] is None


def test_the_tables_of_kinds_belong_together() -> None:
    assert set(WRITTEN.values()) == set(WORDS) == set(get_args(Kind))
    assert all(files(kind) for kind in WORDS)
    assert command_for("bottleneck", "leakage", "runs/a b") == "conceptlens leakage 'runs/a b'"
    assert command_for("bottleneck", "history", "runs/a") is None


def test_a_model_below_this_folder_is_named_the_short_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown_path(str(tmp_path / "runs" / "demo")) == "runs/demo"
    assert shown_path("builtin/cells") == "builtin/cells"
    assert shown_path("/elsewhere/demo") == "/elsewhere/demo"
