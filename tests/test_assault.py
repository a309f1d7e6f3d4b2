"""A few attempts of every part of the assault that is quick; `make assault` makes many, and kills."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from assault.disks import assault_full_results, assault_real_disk
from assault.inputs import assault_images, assault_recipes
from assault.run_folders import assault_commands, assault_page
from assault.watch import Part
from assault.world import World
from tests.own_data import OwnData


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def world(own_run: Path, mine: OwnData, tmp_path: Path) -> World:
    return World(tmp_path, mine, own_run)


@pytest.mark.parametrize(
    ("run", "number"),
    [(assault_commands, 4), (assault_page, 1), (assault_images, 4), (assault_recipes, 6), (assault_full_results, 1)],
)
def test_nothing_is_found(run: object, number: int, world: World) -> None:
    part = Part("test")
    assert callable(run)
    run(part, world, 7, number)
    assert part.attempts >= number
    assert [(found.kind, found.what, found.detail) for found in part.findings] == []


@pytest.mark.slow
def test_a_disk_that_is_really_full(world: World) -> None:
    part = Part("test")
    assault_real_disk(part, world, 7, 2)
    if "skipped" in part.more:
        pytest.skip(part.more["skipped"])
    assert part.attempts > 2  # at least one found no room
    assert [(found.kind, found.what, found.detail) for found in part.findings] == []


def test_a_changed_answer_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing compares hashes, classes in another order change an answer in silence: the assault says so."""

    def rotate(path: Path, draw: object) -> str:
        card = path.parents[len(path.relative_to(tmp).parts) - 2] / "model/model.json"
        raw = json.loads(card.read_text("utf-8"))
        card.write_text(json.dumps(raw | {"classes": raw["classes"][::-1]}), "utf-8")
        return "rotated"

    tmp = world.root
    monkeypatch.setattr("assault.run_folders.mutate_file", rotate)
    monkeypatch.setattr("assault.run_folders.COMMANDS", ("predict",))
    monkeypatch.setattr("conceptlens.core.manifest.check", lambda path, always=False: None)
    part = Part("test")
    assault_commands(part, world, 7, 3)
    assert "changed" in {found.kind for found in part.findings}
