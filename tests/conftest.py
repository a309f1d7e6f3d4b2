"""A small world for tests: five concepts in three groups, two classes, eight channels."""

import pytest
import torch

from conceptlens.bottleneck.setup import Setup
from conceptlens.concepts import ConceptSet

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
