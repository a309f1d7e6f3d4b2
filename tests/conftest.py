"""A small world for tests: five concepts in three groups, two classes, eight channels; and a user's own data."""

from pathlib import Path

import pytest
import torch

from conceptlens.bottleneck.setup import Setup
from conceptlens.concepts import ConceptSet
from tests.own_data import OwnData, make_own_data

CONCEPTS = """
schema: 1
classes: [left, right]
groups:
  size:
    prompt: "a {value} cell"
    part: cell
    values: {big: large, small: small}
  colour:
    prompt: "a cell that is {value}"
    part: nucleus
    values: [red, blue]
  extras:
    kind: independent
    values: {spots: a cell with spots}
"""


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
