"""Sliced score matching against the full Jacobian, on a Gaussian whose score is known; Langevin steps by hand."""

import torch
from torch import Tensor, nn

from conceptlens.nn.losses.score_matching import ScoreNet, fit_score, langevin, sliced_score_loss


def test_the_mean_over_directions_is_the_trace_of_the_jacobian() -> None:
    """½‖s‖² + tr ∇s: with directions √D e_i the mean over i is exactly that."""
    torch.manual_seed(0)
    net, x = ScoreNet(3, 5).double(), torch.randn(1, 3, dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda row: net(row[None])[0], x[0])
    expected = 0.5 * net(x).square().sum() + jacobian.trace()
    directions = 3**0.5 * torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(sliced_score_loss(net, x.expand(3, 3), directions).mean(), expected)


def test_of_a_linear_score_by_hand() -> None:
    """s(x) = −2x, v = (1, 2): ½ · 4 ‖x‖² − 2 ‖v‖²."""
    net = nn.Linear(2, 2, bias=False)
    net.weight.data = -2 * torch.eye(2)
    loss = sliced_score_loss(net, torch.tensor([[3.0, 1.0]]), torch.tensor([[1.0, 2.0]]))
    assert loss.tolist() == [0.5 * 4 * 10 - 2 * 5]


def test_the_score_of_a_gaussian_is_found() -> None:
    """x ~ N(m, 0.5²): the score is (m − x)/0.25."""
    chance = torch.Generator().manual_seed(1)
    middle = torch.tensor([1.0, -0.5])
    samples = middle + 0.5 * torch.randn(4000, 2, generator=chance)
    net, loss = fit_score([samples], hidden=32, steps=1200, batch=256, rate=1e-2, seed=0)
    points = samples[:200]
    found, expected = net(points), (middle - points) / 0.25
    assert float((found - expected).square().mean()) < 0.1 * float(expected.square().mean())
    assert loss < -2  # −½ E‖score‖², which is −4 here, up to the noise of the directions


def test_kinds_take_turns_and_a_seed_makes_the_score() -> None:
    chance = torch.Generator().manual_seed(2)
    texts, images = torch.randn(5, 3, generator=chance), torch.randn(50, 3, generator=chance)
    settings = {"hidden": 4, "steps": 6, "batch": 8, "rate": 1e-3}
    state = torch.get_rng_state()
    first, _ = fit_score((texts, images), seed=4, **settings)  # type: ignore[arg-type]
    again, _ = fit_score((texts, images), seed=4, **settings)  # type: ignore[arg-type]
    other, _ = fit_score((texts + 1, images), seed=4, **settings)  # type: ignore[arg-type]
    assert torch.equal(first[0].weight, again[0].weight)
    assert not torch.equal(first[0].weight, other[0].weight)
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(value.requires_grad for value in first.parameters())


def test_langevin_by_hand() -> None:
    chance = torch.Generator().manual_seed(3)
    first, second = (torch.randn(2, 3, generator=chance) for _ in range(2))
    start = torch.ones(2, 3, requires_grad=True)
    found = langevin(lambda x: -x, start, step=0.04, steps=2, chance=chance.manual_seed(3))  # type: ignore[arg-type]
    middle = torch.ones(2, 3) * 0.98 + 0.2 * first
    torch.testing.assert_close(found.detach(), middle * 0.98 + 0.2 * second)
    found.sum().backward()
    torch.testing.assert_close(start.grad, torch.full((2, 3), 0.98**2))


def test_langevin_samples_what_the_score_says() -> None:
    """From anywhere to N(0, 1), by steps along −x."""
    chance = torch.Generator().manual_seed(4)
    found: Tensor = langevin(lambda x: -x, torch.full((4000, 1), 5.0), step=0.1, steps=150, chance=chance)  # type: ignore[arg-type]
    assert abs(float(found.mean())) < 0.06
    assert abs(float(found.std()) - 1) < 0.06
