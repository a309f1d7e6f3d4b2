"""Graphs of a decomposition over the API: what is sent, and that nothing else of the machine ever is."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="the page needs the extra `page`")

from conceptlens.core import manifest
from conceptlens.core.files import write_text
from conceptlens.gig.document import Graph
from conceptlens.gig.pages.pictures import sheet_file
from conceptlens.runs.folder import RunFolder
from conceptlens.web.views import graphs
from conceptlens.web.views.graphs import FILES
from tests.web.conftest import client_of
from tests.web.decomposition import CROPS, draw_graph, write_decomposition

BASE = "/api/v1/runs/taken-apart/graphs"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = {"graph.json": draw_graph(), "graph-image.json": draw_graph(about="image", outputs=["cat"], seed=1)}
    drawn = write_decomposition(tmp_path / "runs" / "taken-apart", made)
    (drawn / manifest.NAME).unlink()  # a stranger's files fit their manifest, or have none
    return drawn


@pytest.fixture
def client(folder: Path) -> Any:
    return client_of(folder.parent)


def test_a_graph_in_numbers_is_the_graph_of_the_file(client: Any, folder: Path) -> None:
    graph = Graph.read(folder / "graph.json")
    told = client.get(f"{BASE}/classes").json()
    assert (told["schema"], told["name"], told["others"]) == (1, "classes", ["classes", "image"])
    assert [node["id"] for node in told["nodes"]] == [node.id for node in graph.nodes]
    assert [node["row"] for node in told["nodes"][:4]] == [3, 3, 0, 0]  # outputs are above the layers
    for said, node in zip(told["nodes"], graph.nodes, strict=True):
        assert [told["outputs"][place] for place in said["top_of"]] == node.top_of
        assert said["shares"] == pytest.approx([node.shares.get(name, 0) for name in graph.outputs], rel=1e-5)
        assert said["crops"] == (CROPS if node.kind == "concept" else 0)
    assert told["examples"][1] == {"number": 1, "name": "01.png"}
    columns = told["edges"]
    sent = {
        (graph.nodes[source].id, graph.nodes[target].id): value
        for source, target, value in zip(columns["source"], columns["target"], columns["value"], strict=True)
    }
    assert sent == pytest.approx({(edge.source, edge.target): edge.value for edge in graph.edges}, rel=1e-5)
    assert columns["weight"] == sorted(columns["weight"], reverse=True)
    assert columns["all"] == len(graph.edges) == 2 * 7 * 6 + 7 * 2


def test_only_the_strongest_edges_of_a_huge_graph_are_sent(
    client: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "EDGES", 5)
    columns = client.get(f"{BASE}/classes").json()["edges"]
    every = sorted((edge.weight for edge in Graph.read(folder / "graph.json").edges), reverse=True)
    assert columns["weight"] == pytest.approx(every[:5], rel=1e-5)
    assert columns["all"] == len(every)


def test_what_has_not_changed_is_not_sent_again(client: Any, folder: Path) -> None:
    first = client.get(f"{BASE}/classes")
    again = client.get(f"{BASE}/classes", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    draw_graph(seed=5).write(folder / "graph.json")
    other = client.get(f"{BASE}/classes", headers={"If-None-Match": first.headers["etag"]})
    assert other.status_code == 200
    assert other.json()["edges"] != first.json()["edges"]


def test_the_file_comes_as_it_was_written(client: Any, folder: Path) -> None:
    assert client.get(f"{BASE}/image/file").content == (folder / "graph-image.json").read_bytes()


def test_a_node_has_its_sheet_and_its_places(client: Any, folder: Path) -> None:
    graph = Graph.read(folder / "graph.json")
    number = next(place for place, node in enumerate(graph.nodes) if node.id == "layer2/3")
    told = client.get(f"{BASE}/classes/nodes/{number}").json()
    assert (told["id"], told["samples"], told["active_of"], told["sheet"]) == ("layer2/3", 13, [1, 1], True)
    assert [crop["cosine"] for crop in told["crops"]] == [0.9, 0.8, 0.7, 0.6]
    assert told["places"] == [{"image": "00.png", "grid": [2, 2], "values": [[0, 1], [0.5, 0]], "picture": 0}]
    sheet = client.get(f"{BASE}/classes/nodes/{number}/sheet")
    assert sheet.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(sheet.content)).size == (CROPS * 112, 112)
    assert Image.open(io.BytesIO(client.get(f"{BASE}/classes/images/0").content)).size == (160, 160)
    again = client.get(f"{BASE}/classes/nodes/{number}/sheet", headers={"If-None-Match": sheet.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize("address", ["nodes/9999", "nodes/9999/sheet", "images/9999"])
def test_a_number_that_is_none_is_not_found(client: Any, address: str) -> None:
    answer = client.get(f"{BASE}/classes/{address}")
    assert answer.status_code == 404
    assert "9999" in answer.json()["error"]["message"]


@pytest.mark.parametrize("name", ["graph.json", "settings", "classes.json", "%2e%2e%2frun"])
def test_nobody_names_a_file(client: Any, name: str) -> None:
    assert client.get(f"{BASE}/{name}").status_code in (404, 422)


def test_a_sheet_that_points_elsewhere_is_not_followed(client: Any, folder: Path) -> None:
    secret = folder.parent / "secret.jpg"
    secret.write_bytes(b"secret")
    raw = json.loads((folder / "graph.json").read_text())
    raw["nodes"][2]["sheet"] = "../secret.jpg"
    raw["pictures"]["00.png"] = "../secret.jpg"
    (folder / "graph.json").write_text(json.dumps(raw))
    for address in ("nodes/2/sheet", "images/0"):  # served by the names that were made for them, as ever
        assert client.get(f"{BASE}/classes/{address}").content.startswith(b"\xff\xd8")
    kept = folder / sheet_file("layer1/0")
    kept.unlink()
    kept.symlink_to(secret)
    answer = client.get(f"{BASE}/classes/nodes/2/sheet")
    assert answer.status_code == 409
    assert answer.content != b"secret"
    assert "leads out" in answer.json()["error"]["message"]


def test_what_is_missing_names_the_command(client: Any, folder: Path) -> None:
    (folder / sheet_file("layer1/0")).unlink()
    gone = client.get(f"{BASE}/classes/nodes/2/sheet")
    assert gone.status_code == 409
    assert gone.json()["error"]["command"].startswith("conceptlens resume ")
    undrawn = client.get(f"{BASE}/data").json()["error"]
    assert (undrawn["code"], undrawn["command"].split()[1]) == ("missing", "resume")
    assert "--noise" in client.get(f"{BASE}/noise").json()["error"]["message"]


def test_a_trained_run_has_no_graph(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "runs" / "trained") as run:
        run.update(kind="bottleneck", status="done", data={"name": "shapes"})
    answer = client_of(tmp_path / "runs").get("/api/v1/runs/trained/graphs/classes")
    assert answer.status_code == 409
    assert "conceptlens decompose" in answer.json()["error"]["message"]


def _no_json(raw: dict[str, Any]) -> str:
    return "{"


def _lost_target(raw: dict[str, Any]) -> str:
    raw["edges"][0]["target"] = "nowhere"
    return json.dumps(raw)


def _twice(raw: dict[str, Any]) -> str:
    raw["nodes"].append(raw["nodes"][0])
    return json.dumps(raw)


def _no_such_layer(raw: dict[str, Any]) -> str:
    raw["nodes"][3]["layer"] = "else"
    return json.dumps(raw)


def _no_such_class(raw: dict[str, Any]) -> str:
    raw["nodes"][3]["top_of"] = ["horse"]
    return json.dumps(raw)


@pytest.mark.parametrize("harm", [_no_json, _lost_target, _twice, _no_such_layer, _no_such_class])
def test_a_damaged_graph_says_so(client: Any, folder: Path, harm: Any) -> None:
    (folder / "graph.json").write_text(harm(json.loads((folder / "graph.json").read_text())))
    answer = client.get(f"{BASE}/classes")
    assert answer.status_code == 409
    error = answer.json()["error"]
    assert error["code"] == "broken"
    assert "graph.json" in error["message"]
    assert "Draw the graph again." in error["message"]


def test_a_graph_of_a_later_version_is_refused(client: Any, folder: Path) -> None:
    raw = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps(raw | {"schema": 99}))
    answer = client.get(f"{BASE}/classes")
    assert answer.status_code == 409
    assert "Update conceptlens" in answer.json()["error"]["message"]


def test_a_graph_of_version_0_1_is_upgraded(client: Any, folder: Path) -> None:
    now = client.get(f"{BASE}/classes").json()
    raw = json.loads((folder / "graph.json").read_text())
    for node in raw["nodes"]:
        node["faces"] = node.pop("crops")
    write_text(folder / "graph.json", json.dumps(raw | {"schema": 1}))
    assert client.get(f"{BASE}/classes").json() == now
    assert Graph.read(folder / "graph.json").nodes[2].crops


def test_files_that_a_graph_may_have() -> None:
    assert all("/" not in file and file.startswith("graph") for file in FILES.values())
