"""RandInt rests where concept labels follow from the class."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from conceptlens.methods.cbm import CBM
from conceptlens.methods.cem import CEM
from conceptlens.methods.contract import ConceptModel, Pipeline
from conceptlens.nn.heads.bottleneck import RandInt
from conceptlens.nn.setup import Setup
from conceptlens.training.start import rest_randint

CLASSES = np.array([0, 1, 2, 0, 1, 2])
TABLE = np.array([[1, 0, 0, 1, 1], [0, 1, 1, 0, 0], [0, 1, 0, 1, 1]], np.int8)[CLASSES]
OWN = TABLE.copy()
OWN[5, 4] = 0  # one image differs from others of its class


def rested(model: ConceptModel, concepts: Any = TABLE, labels: Any = CLASSES) -> bool:
    return rest_randint(cast(Pipeline, SimpleNamespace(model=model)), concepts, labels)


@pytest.mark.parametrize("randint", [0.25, "uniform"])
def test_labels_of_the_class_are_not_told(setup: Setup, randint: RandInt) -> None:
    model = CBM(setup, space="probability", randint=randint)
    assert rested(model)
    assert model.bottleneck.randint == 0


@pytest.mark.parametrize("randint", [0.25, "uniform"])
def test_labels_of_images_are_told(setup: Setup, randint: RandInt) -> None:
    model = CBM(setup, space="probability", randint=randint)
    assert not rested(model, OWN)
    assert not rested(model, TABLE, np.eye(3, dtype=np.int64)[CLASSES])  # several labels at once are no table
    assert model.bottleneck.randint == randint


@pytest.mark.parametrize("randint", [0.0, 1.0])
def test_a_head_that_is_never_or_always_told_stays(setup: Setup, randint: float) -> None:
    """1 is the independent model: its head learns from labels and nothing else."""
    model = CBM(setup, space="probability", randint=randint)
    assert not rested(model)
    assert model.bottleneck.randint == randint


def test_cem_is_told_as_in_its_paper(setup: Setup) -> None:
    model = CEM(setup, randint=0.25)
    assert not rested(model)
    assert model.bottleneck.randint == 0.25
