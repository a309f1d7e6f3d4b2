"""A small world for tests: five concepts in three groups, two classes, eight channels; and a user's own data."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from conceptlens.cli import main
from conceptlens.concepts import ConceptSet
from conceptlens.core.files import read_json
from conceptlens.nn.setup import Setup
from tests.own_data import OwnData, make_own_data
from tests.web.browser import CHROMIUM, FLAGS

Refuse = Callable[..., str]

CONCEPTS = """
schema: 1
classes: [left, right]
groups:
  size:
    prompt: "a {value} cell"
    part: cell
    values: {big: large, small: small}
  color:
    prompt: "a cell that is {value}"
    part: nucleus
    values: [red, blue]
  extras:
    kind: independent
    values: {spots: a cell with spots}
"""


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """Files are still written whole; only a cut of power, which no test makes, could tell the difference."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture
def concepts() -> ConceptSet:
    return ConceptSet.from_yaml(CONCEPTS)


@pytest.fixture
def setup(concepts: ConceptSet) -> Setup:
    generator = torch.Generator().manual_seed(0)
    text = torch.nn.functional.normalize(torch.randn(len(concepts), 6, generator=generator), dim=-1)
    return Setup(concepts, text, width=8, classes=2)


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> OwnData:
    """Data to read; tests that damage it make their own with `make_own_data`."""
    return make_own_data(tmp_path_factory.mktemp("own data"))


@pytest.fixture(scope="session")
def own_run(own: OwnData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on it, for reading only."""
    import conceptlens as cl

    return cl.train(own.recipe, {"out": str(tmp_path_factory.mktemp("own run") / "run")}, quiet=True).path


@pytest.fixture
def mine(tmp_path: Path) -> OwnData:
    """Data that a test may damage."""
    return make_own_data(tmp_path / "data")


@pytest.fixture
def refuse(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Refuse:
    """Runs a command that must be refused; returns what it said."""

    def call(*words: object, says: tuple[str, ...] | str = ()) -> str:
        capsys.readouterr()
        code = main([str(word) for word in words])
        out, err = capsys.readouterr()
        assert code == 2, (out, err)
        assert "Traceback" not in err
        said = err if words[:2] != ("data", "check") else out + err
        for phrase in (says,) if isinstance(says, str) else says:
            assert phrase in said, said
        assert not [entry for entry in tmp_path.rglob(".*") if entry.suffix in (".tmp", ".old")]
        return said

    return call


@pytest.fixture
def refuse_training(refuse: Refuse, tmp_path: Path) -> Refuse:
    """The same for `train`: there is no run afterwards, or one that failed and says why."""

    def call(recipe: object, *settings: object, says: tuple[str, ...] | str = (), begun: bool = False) -> str:
        out = tmp_path / "the run"
        said = refuse("train", recipe, *settings, "--out", out, "--quiet", says=says)
        assert said.startswith("error: ")
        assert out.exists() is begun
        if begun:
            info = read_json(out / "run.json")
            assert info["status"] == "failed"
            assert info["reason"]
            assert not (out / "metrics.json").exists()
            assert not (out / "model").exists()
        return said

    return call


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser; no longer than a module, as playwright's loop runs as long."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as library:
        browser = library.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def evidence_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `evidence-cbm` on drawn shapes whose value "body pattern: plain" has no place; for reading only."""
    import conceptlens as cl
    from conceptlens.core.package_files import package_text
    from tests.training.tiny import tiny

    folder = tmp_path_factory.mktemp("evidence")
    shapes = package_text("conceptlens.concepts", "library", "shapes.yaml")
    (folder / "mine.yaml").write_text(shapes.replace("  body pattern:\n", "  body pattern:\n    placeless: [plain]\n"))
    settings = {"method": {"name": "evidence-cbm", "class_token": True}, "concepts": str(folder / "mine.yaml")}
    return cl.train(tiny(folder / "run", training__epochs=1, **settings), quiet=True).path
