"""Means over images and shared concepts, by hand."""

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.gig.attribution.integrated_gradients import Contributions
from conceptlens.gig.means import Mean, shared, top


def found(concepts: list[int], values: list[float], whole: float) -> Contributions:
    at = torch.tensor(values)[None, None]
    end = at.sum((1, 2))
    return Contributions(torch.tensor(concepts), at, torch.zeros(1), end, torch.tensor([whole]), torch.tensor([8]))


def test_means_count_images_without_the_concept() -> None:
    mean = Mean(4, 1)
    mean.add(found([0, 2], [3.0, -1.0], whole=4.0))  # residual 4 − 2 = 2, size 3 + 1 + 2 = 6
    mean.add(found([2], [2.0], whole=0.0))  # residual −2, size 2 + 2 = 4
    assert mean.values[0].tolist() == [1.5, 0, 0.5, 0]
    assert mean.shares[0].tolist() == pytest.approx([0.3, 0, 0.1, 0])
    assert mean.residual_values.tolist() == [0]
    assert mean.residual_shares.tolist() == pytest.approx([0.4])
    assert mean.active.tolist() == [1, 0, 2, 0]
    assert mean.steps == [8, 8]
    assert mean.errors == [0, 0]


def test_top_leaves_out_what_takes_away() -> None:
    assert top(torch.tensor([0.1, -0.5, 0.3, 0.0]), 3) == [2, 0]


def test_shared_concepts_add_to_every_output() -> None:
    shares = {"cat": torch.tensor([0.5, 0.2, 0.1, 0.0]), "dog": torch.tensor([-0.1, 0.1, 0.3, 0.4])}
    assert shared(shares, 3) in ([1, 2], [2, 1])  # both 0.1 in the output they add least to
    assert shared(shares, 3, without=[1]) == [2]
    with pytest.raises(UserError, match="two outputs"):
        shared({"cat": shares["cat"]}, 3)
