"""Trajectories, noise and attacks, by hand."""

import pytest
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.gig.graph import Drawn, Seen, build_graph
from conceptlens.gig.validation.robustness import attack, kept_concepts, noisy
from conceptlens.gig.validation.trajectory import trajectory
from tests.gig.standin import StandIn, image
from tests.gig.test_graph import LeastSquares


def test_a_trajectory_by_hand() -> None:
    angles = torch.tensor([5.0, 62.0, 31.0, 60.0, 90.0]).deg2rad()
    members = 3 * torch.stack([angles.cos(), angles.sin(), torch.zeros(5)], dim=1)
    members[3, 2] = 50  # far out of the plane: its place within it is not on the way
    found = trajectory(members, torch.tensor([2.0, 0, 0]), stops=4)
    assert found.stops == [0, 2, 1, 4]
    assert found.distance == pytest.approx(1, abs=1e-6)
    assert found.places[4].tolist() == pytest.approx([0, 1], abs=1e-6)
    assert found.places[2].tolist() == pytest.approx([float(angles[2].cos()), float(angles[2].sin())], abs=1e-6)


def test_a_trajectory_of_one_sample_and_of_none() -> None:
    assert trajectory(torch.tensor([[1.0, 1.0]]), torch.tensor([1.0, 0.0])).stops == [0]
    with pytest.raises(UserError, match="has none"):
        trajectory(torch.zeros(0, 2), torch.tensor([1.0, 0.0]))
    with pytest.raises(UserError, match="zero"):
        trajectory(torch.ones(2, 2), torch.zeros(2))


def test_noise_is_in_bytes_and_stays_in_range() -> None:
    plain = torch.full((3, 64, 64), 0.5)
    found = noisy(plain, 10)
    assert float((found - plain).std()) == pytest.approx(10 / 255, rel=0.05)
    assert torch.equal(found, noisy(plain, 10))
    strong = noisy(plain, 400)
    assert float(strong.min()) == 0
    assert float(strong.max()) == 1


def test_an_attack_reaches_its_target_by_the_shortest_way() -> None:
    # Two classes, logits ±(mean − ½): from mean 0.4 the border is 0.1 away in every pixel.
    def logits(images: Tensor) -> Tensor:
        mean = images.mean((1, 2, 3)) - 0.5
        return 40 * torch.stack([-mean, mean], dim=1)

    plain = torch.full((3, 4, 4), 0.4)
    found = attack(logits, plain, 1, steps=150, searches=6)
    assert found.reached
    assert found.distance == pytest.approx(0.1 * 48**0.5, rel=0.1)
    assert logits(found.image[None]).argmax().item() == 1
    assert not attack(lambda x: torch.stack([x.mean((1, 2, 3)), -x.mean((1, 2, 3)) - 9], 1), plain, 1, steps=3).reached
    with pytest.raises(UserError, match="one search"):
        attack(logits, plain, 1, searches=0)


def test_concepts_that_stay_are_counted() -> None:
    network = StandIn(2)
    coders = {name: LeastSquares(network, name) for name in network.layers}
    unit = {name: torch.nn.functional.normalize(coder.vectors, dim=1) for name, coder in coders.items()}
    clean, other = (
        build_graph(
            network, coders, {0: [Seen("a", picture)]}, ["a", "b", "c"], about="image", title="", model="", how=Drawn()
        )
        for picture in (image(), image(9))
    )
    same = kept_concepts(clean, clean, unit)
    assert all(row.kept == row.alike == row.first for row in same)
    for row in kept_concepts(clean, other, unit):
        assert row.kept <= row.alike <= row.first
