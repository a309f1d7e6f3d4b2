"""Names that people gave reach the graph, the codebook and the report."""

from pathlib import Path

import pytest

from conceptlens.concepts import ConceptSet
from conceptlens.core.files import read_json, write_json
from conceptlens.gig.names import with_names
from conceptlens.reports.page import render_report
from conceptlens.runs.annotations import annotate
from conceptlens.runs.folder import RunFolder
from tests.web.conftest import World, client_of
from tests.web.decomposition import draw_graph, write_decomposition
from tests.web.studio_world import make_studies


def test_a_graph_calls_its_nodes_as_people_do(tmp_path: Path) -> None:
    graph = draw_graph()
    write_decomposition(tmp_path / "graph", {"graph.json": graph})
    node = next(node for node in graph.nodes if node.kind == "concept")
    with client_of(tmp_path) as client:
        at = "/api/v1/runs/graph/graphs/classes"
        before = client.get(at)
        said = {"author": "Ann", "kind": "node", "of": [node.id], "name": "wing", "group": "bird"}
        answer = client.post("/api/v1/runs/graph/annotations", json=said).json()
        assert (answer["nodes"][node.id]["name"], answer["nodes"][node.id]["author"]) == ("wing", "Ann")
        after = client.get(at)
        assert after.headers["etag"] != before.headers["etag"]
        names = {part["id"]: part["name"] for part in after.json()["nodes"]}
        assert names[node.id] == "bird: wing"
        assert [name for name in names.values() if name == "bird: wing"] == ["bird: wing"]
    assert with_names(graph, {}) == graph


def test_codes_and_reports_have_the_names(own_world: World) -> None:
    annotate(own_world.slots, "code", ["2"], author="Ann", name="edge")
    with client_of(own_world.root) as client:
        codes = client.get("/api/v1/runs/slots/codebook?look=false").json()["codes"]
        assert codes[2]["name"] == "edge"
    page = render_report(RunFolder(own_world.slots)).read_text("utf-8")
    assert "code 2 “edge” (Ann, 20" in page


@pytest.mark.slow
def test_a_studio_calls_tokens_as_people_do(tmp_path: Path) -> None:
    studies = make_studies(tmp_path)
    annotate(studies / "shapes", "token", ["3"], author="Ann", name="corner", group="frame")
    with client_of(studies) as client:
        answer = client.get("/api/v1/runs/shapes/studio")
        assert answer.status_code == 200, answer.text
        assert answer.json()["names"] == {"3": "frame: corner"}


@pytest.mark.slow
def test_names_are_proposed_from_pictures(tmp_path: Path) -> None:
    write_decomposition(tmp_path / "graph", {"graph.json": draw_graph()})
    with client_of(tmp_path) as client:
        nodes = client.get("/api/v1/runs/graph/graphs/classes").json()["nodes"]
        seen = next(place for place, node in enumerate(nodes) if node["crops"])
        bare = next(place for place, node in enumerate(nodes) if not node["crops"])
        at = "/api/v1/runs/graph/graphs/classes/nodes"
        proposed = client.get(f"{at}/{seen}/proposals").json()["proposals"]
        assert len(proposed) == 6
        assert all(-1 <= each["similarity"] <= 1 for each in proposed)
        info = tmp_path / "graph" / "run.json"
        write_json(info, read_json(info) | {"data": {"name": "fundus"}})
        proposed = client.get(f"{at}/{seen}/proposals").json()["proposals"]
        assert {each["text"] for each in proposed} <= {each.text for each in ConceptSet.load("fundus").concepts}
        assert client.get(f"{at}/{bare}/proposals").status_code == 409
        assert client.get(f"{at}/9999/proposals").status_code == 404
