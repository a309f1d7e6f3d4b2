"""Two finished runs on drawn shapes: one that reads patches through slots, one that reads the class token."""

from pathlib import Path

import pytest

import conceptlens as cl
from tests.training.tiny import tiny


@pytest.fixture(scope="session")
def slots_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cl.train(tiny(tmp_path_factory.mktemp("slots") / "run", training__epochs=1), quiet=True).path


@pytest.fixture(scope="session")
def class_token_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recipe = tiny(
        tmp_path_factory.mktemp("cls") / "run",
        training__epochs=1,
        method={"name": "ivq-cbm", "aggregate": "cls"},
        regularizer={"name": "none"},
    )
    return cl.train(recipe, quiet=True).path
