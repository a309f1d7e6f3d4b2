"""A folder of runs on drawn shapes, as a server would get it: one with slots and codes, one without, one broken."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import conceptlens as cl
from tests.training.tiny import tiny
from tests.web.browser import Open, serve_inside, visits


@dataclass(frozen=True)
class World:
    """What the tests are served."""

    root: Path

    @property
    def slots(self) -> Path:
        return self.root / "slots"

    @property
    def whole(self) -> Path:
        return self.root / "group" / "whole"


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Runs for reading only."""
    made = World(tmp_path_factory.mktemp("served") / "runs")
    cl.train(tiny(made.slots, training__epochs=2), quiet=True)
    recipe = tiny(made.whole, training__epochs=1, method={"name": "cbm"}, regularizer={"name": "none"})
    cl.train(recipe, quiet=True)
    broken = made.root / "broken"
    broken.mkdir()
    (broken / "run.json").write_text('{"schema": 1, "status":', "utf-8")
    return made


@pytest.fixture
def own_world(world: World, tmp_path: Path) -> World:
    """A copy that a test may change."""
    shutil.copytree(world.root, tmp_path / "runs")
    return World(tmp_path / "runs")


@pytest.fixture(scope="session")
def blind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a method without concepts, for reading only."""
    settings = {"method": {"name": "black-box"}, "regularizer": {"name": "none"}, "training__epochs": 1}
    return cl.train(tiny(tmp_path_factory.mktemp("blind") / "blind", **settings), quiet=True).path


@pytest.fixture(scope="session")
def measured(world: World, blind: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs for reading only: one of which all of trust was measured, one of which nothing was, one without concepts."""
    from conceptlens import api

    root = tmp_path_factory.mktemp("measured") / "runs"
    run = Path(shutil.copytree(world.slots, root / "measured"))
    shutil.copytree(world.slots, root / "bare")
    shutil.copytree(blind, root / "blind")
    api.interventions(run, resamples=20)
    api.leakage(run, resamples=20, permutations=0)
    api.localize(run, n=8)
    api.faithfulness(run, n=4, steps=4)
    api.audit(run, resamples=20)
    return root


def client_of(*runs: Path, **options: Any) -> Any:
    """A client of a server of these folders, without a network."""
    pytest.importorskip("fastapi", reason="the page needs the extra `page`")
    from starlette.testclient import TestClient

    from conceptlens.web.server.app import create_app

    return TestClient(create_app(runs, **options), base_url="http://127.0.0.1", follow_redirects=False)


@pytest.fixture(scope="session")
def client(world: World) -> Iterator[Any]:
    """A client of all of them."""
    with client_of(world.root) as made:
        yield made


@pytest.fixture(scope="session")
def told(client: Any) -> dict[str, Any]:
    """The prediction of one image of the run with slots."""
    found: dict[str, Any] = client.get("/api/v1/runs/slots/images/test/0/prediction").json()
    return found


@pytest.fixture(scope="module")
def base(runs: Path) -> Iterator[str]:
    """The address of a server of the module's own folder `runs`."""
    with serve_inside(runs) as address:
        yield address


@pytest.fixture
def look() -> dict[str, str]:
    """How pages are opened, besides at their address; a module may say more."""
    return {}


@pytest.fixture
def visit(base: str, chromium: Any, look: dict[str, str]) -> Iterator[Open]:
    """Opens a page of that server."""
    with visits(base, chromium, **look) as go:
        yield go
