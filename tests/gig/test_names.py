"""Concepts get names by hand or from texts; graphs, files and later pages have them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from conceptlens import cli
from conceptlens.core import manifest
from conceptlens.core.errors import UserError
from conceptlens.gig import decompose, name_concepts
from conceptlens.gig.document import Graph
from conceptlens.gig.names import with_names
from conceptlens.runs.annotations import read_annotations
from tests.gig.own_model import Tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    images = np.zeros((12, 24, 24, 3), np.uint8)
    for number, image in enumerate(images):
        image[:, :, number % 3] = 120 + 10 * number
    few = {"k": 4, "examples": 1, "validate_on": 0, "crops": 2, "most_steps": 8, "graphs": []}
    out = tmp_path_factory.mktemp("runs") / "run"
    return decompose(Tiny(), images, layers=["two"], out=out, per_image=3, **few).run.path  # type: ignore[arg-type]


def concepts(run: Path) -> list[str]:
    return [node.id for node in Graph.read(run / "graph.json").nodes if node.kind == "concept"]


def shown(run: Path) -> Graph:
    """The graph as every page shows it."""
    return with_names(Graph.read(run / "graph.json"), read_annotations(run)["node"])


def test_by_hand(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = concepts(run)[0]
    file = tmp_path / "names.txt"
    file.write_text(f"{first}, dark, round\n")
    assert cli.main(["name-concepts", str(run), str(file)]) == 0
    assert f"{first}: dark, round" in capsys.readouterr().out
    node = shown(run).node(first)
    assert (node.name, node.named_by) == ("dark, round", "hand")
    assert read_annotations(run)["node"][first].author == "command line"
    name_concepts(run, {first: "edge"})
    assert shown(run).node(first).name == "edge"


def test_by_texts(run: Path) -> None:
    """All pictures of one concept are made red, those of the others blue: the text about red is the red one's."""
    ids = concepts(run)
    for node in ids:
        sheet = run / str(Graph.read(run / "graph.json").node(node).sheet)
        with Image.open(sheet) as picture:
            Image.new("RGB", picture.size, "red" if node == ids[0] else "blue").save(sheet)
    manifest.rewrite(run)
    named = name_concepts(run, texts=["red", "blue"]).names
    assert {by for _, by in named.values()} == {"texts"}
    assert shown(run).node(ids[0]).named_by == "texts"
    others = {named[node][0] for node in ids[1:]}
    assert len(others) == 1
    assert named[ids[0]][0] not in others


def test_what_does_not_fit_is_named(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="concept 'two/999'"):
        name_concepts(run, {"two/999": "x"})
    with pytest.raises(UserError, match="but not both"):
        name_concepts(run)
    (tmp_path / "bad.txt").write_text("two/1\n")
    with pytest.raises(UserError, match="line 1: expected LAYER/NUMBER,NAME"):
        name_concepts(run, tmp_path / "bad.txt")
