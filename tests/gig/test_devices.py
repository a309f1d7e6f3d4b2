"""A network on another device than the host's is decomposed into the same graph: nothing is mixed."""

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from PIL import Image

from conceptlens.core.files import read_json
from conceptlens.gig import decompose
from conceptlens.gig.dictionaries.clusters import nearest
from conceptlens.gig.dictionaries.concept_vectors import concept_vectors
from conceptlens.gig.dictionaries.lasso import decompose as code
from conceptlens.gig.validation.trajectory import trajectory
from tests.gig.test_run import FEW, OWN
from tests.second_device import second_device

FILES = ("graph", "graph-image", "graph-data", "graph-noise", "graph-attack", "validation")


def test_a_trajectory_stays_on_its_device() -> None:
    members, concept = torch.randn(9, 4), torch.randn(4)
    near = trajectory(members, concept)
    with second_device() as device:
        far = trajectory(members.to(device), concept.to(device))
        assert far.stops == near.stops
        assert torch.equal(far.places.cpu(), near.places)
        with pytest.raises(RuntimeError, match="same device"):
            trajectory(members.to(device), concept)


@pytest.mark.parametrize("kind", ["clusters", "learned", "autoencoder"])
def test_dictionaries_are_the_same_on_another_device(kind: Any) -> None:
    vectors, shift = torch.randn(60, 6, generator=torch.Generator().manual_seed(0)), torch.full((6,), 0.1)

    def found(place: torch.device) -> list[torch.Tensor]:
        there = vectors.to(place)
        concepts, labels = concept_vectors(kind, there, shift.to(place), 5, seed=1)
        rows, cosines = nearest(concepts, there - shift.to(place), 3)
        return [part.cpu() for part in (concepts, labels, rows, cosines, code(there, concepts, 0.3).dense())]

    near = found(torch.device("cpu"))
    with second_device() as device:
        far = found(device)
    for one, other in zip(near, far, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["srd", "gradient"])
def test_a_decomposition_is_the_same_on_another_device(rule: Any, tmp_path: Path) -> None:
    draw, images = np.random.default_rng(0), tmp_path / "images"
    images.mkdir()
    for number in range(18):
        Image.fromarray(draw.integers(0, 250, (24, 24, 3), dtype=np.uint8)).save(images / f"{number:02d}.png")
    wanted: Any = {"layers": ["one", "two"], "noise": 70, "attack": "green", "rule": rule, **FEW}
    decompose(f"{OWN}:build", images, out=tmp_path / "near", **wanted)
    with second_device() as device, mock.patch("conceptlens.gig.work.best_device", return_value=device):
        decompose(f"{OWN}:build", images, out=tmp_path / "far", **wanted)
    for file in FILES:
        near, far = (read_json(tmp_path / place / f"{file}.json") for place in ("near", "far"))
        assert near == far, file
