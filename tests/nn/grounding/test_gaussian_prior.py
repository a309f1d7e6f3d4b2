"""The Gaussian of each part: Eq. 2 and 4 by hand, its wider shapes, its gradients."""

import math

import pytest
import torch

from conceptlens.nn.grounding.gaussian_prior import GaussianPrior, mean_places, patch_centers
from conceptlens.nn.grounding.part_attention import PartAttention


def test_centers_are_halves() -> None:
    assert patch_centers((2, 3), torch.zeros(1)).tolist() == [
        [0.5, 0.5], [0.5, 1.5], [0.5, 2.5], [1.5, 0.5], [1.5, 1.5], [1.5, 2.5]
    ]  # fmt: skip


def test_equation_2_by_hand() -> None:
    prior = GaussianPrior(2, sigma=2.0)
    prior.start(torch.tensor([[0.5, 0.5], [1.5, 2.5]]))
    found = prior(patch_centers((2, 3), torch.zeros(1)))
    assert found[0].tolist() == pytest.approx([-(d / 8) - math.log(2) for d in (0, 1, 4, 1, 2, 5)])
    assert found[1].tolist() == pytest.approx([-(d / 8) - math.log(2) for d in (5, 2, 1, 4, 1, 0)])


def test_starts_at_5_patches_of_a_grid_of_32_and_at_as_much_of_another() -> None:
    prior = GaussianPrior(3)
    assert prior.log_sigma.tolist() == [[pytest.approx(math.log(5))]] * 3
    means = torch.ones(3, 2)
    prior.start(means, grid=(32, 32))
    assert prior.log_sigma.exp().flatten().tolist() == pytest.approx([5.0] * 3)
    prior.start(means, grid=(16, 16))
    assert prior.log_sigma.exp().flatten().tolist() == pytest.approx([2.5] * 3)
    assert prior.start_scale.flatten().tolist() == pytest.approx([2.5] * 6)
    prior.start(means, torch.tensor([1.0, 2.0, 3.0]), grid=(16, 16))  # widths that are known count
    assert prior.log_sigma.exp().flatten().tolist() == pytest.approx([1.0, 2.0, 3.0])
    given = GaussianPrior(3, sigma=4.0)
    given.start(means, grid=(16, 16))
    assert given.log_sigma.exp().flatten().tolist() == pytest.approx([4.0] * 3)


@pytest.mark.parametrize("shape", ["diagonal", "full"])
def test_wider_shapes_hold_the_paper_s(shape: str) -> None:
    places, means = patch_centers((4, 5), torch.zeros(1)), torch.rand(3, 2) * 4
    plain, wide = GaussianPrior(3, sigma=1.5), GaussianPrior(3, sigma=1.5, shape=shape)
    plain.start(means)
    wide.start(means)
    torch.testing.assert_close(wide(places), plain(places))


def test_full_is_a_multivariate_normal() -> None:
    prior = GaussianPrior(1, shape="full")
    with torch.no_grad():
        prior.means.copy_(torch.tensor([[1.0, 2.0]]))
        prior.log_sigma.copy_(torch.tensor([[0.3, -0.2]]))
        prior.slant.copy_(torch.tensor([0.7]))
    places = patch_centers((4, 4), torch.zeros(1))
    mean, covariance = prior.ellipses()
    normal = torch.distributions.MultivariateNormal(mean[0], covariance[0]).log_prob(places)
    found = prior(places)[0]
    torch.testing.assert_close(found - found[0], normal - normal[0])


def test_equation_4_by_hand() -> None:
    points = torch.tensor([[[1.0, 2.0], [9.0, 9.0]], [[3.0, 6.0], [5.0, 1.0]], [[99.0, 99.0], [7.0, 3.0]]])
    seen = torch.tensor([[True, False], [True, True], [False, True]])
    assert mean_places(points, seen).tolist() == [[2.0, 4.0], [6.0, 2.0]]
    assert mean_places(points, torch.zeros_like(seen)).isnan().all()


@pytest.mark.parametrize("shape", ["isotropic", "diagonal", "full"])
def test_gradients_reach_means_and_widths_through_attention(shape: str) -> None:
    torch.manual_seed(0)
    prior, attend = GaussianPrior(2, sigma=1.0, shape=shape), PartAttention(2, 8, 4)
    prior.start(torch.tensor([[0.5, 1.0], [2.0, 3.0]]))
    slots, _ = attend(torch.randn(3, 16, 8), prior(patch_centers((4, 4), torch.zeros(1))))
    (slots * torch.randn_like(slots)).sum().backward()
    for parameter in prior.parameters():
        assert parameter.grad is not None
        assert bool((parameter.grad.abs() > 0).all())
