"""A finished run on drawn shapes, and a study pack of it."""

from pathlib import Path

import pytest

import conceptlens as cl
from conceptlens import api
from conceptlens.workflows.study.make import Pack
from tests.training.tiny import tiny


@pytest.fixture(scope="session")
def shapes_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cl.train(tiny(tmp_path_factory.mktemp("study run") / "run", training__epochs=1), quiet=True).path


@pytest.fixture(scope="session")
def pack(shapes_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Pack:
    return api.make_study(shapes_run, out=tmp_path_factory.mktemp("pack"), n=12, attention=2, catch_share=0.25, seed=3)
