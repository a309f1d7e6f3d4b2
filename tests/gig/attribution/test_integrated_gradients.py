"""GIG against numbers by hand, a naive loop over concepts, and captum."""

import captum.attr
import pytest
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.gig.attribution.integrated_gradients import Contributions, contributions
from conceptlens.gig.attribution.targets import between, to_classes, to_concepts
from conceptlens.gig.dictionaries.coded import Coded, coded
from tests.gig.standin import StandIn, image


def layer_of(network: StandIn, picture: Tensor, layer: str = "one", seed: int = 0) -> Coded:
    """The layer in 12 made-up concepts, of which few are used at any position."""
    generator = torch.Generator().manual_seed(seed)
    features = network.features(picture[None], layer)[0]
    vectors = torch.randn(12, features.shape[1], generator=generator).to(features)
    u = torch.randn(len(features), 12, generator=generator).to(features)
    u[torch.rand(u.shape, generator=generator) < 0.7] = 0
    u[:, 3] = 0
    return coded(features, u, vectors, network.bias_shift(layer))


def test_a_product_by_hand() -> None:
    # f(x) = x₁ x₂ at one position; U = (2, 3), V = I, β = (1, 0). The path is (1 + 2α, 3α), the gradient (3α, 1 + 2α):
    # contributions 2 · 3/2 = 3 and 3 · (1 + 1) = 6; f goes from 0 to 3 · 3 = 9.
    layer = Coded(
        torch.arange(2), torch.tensor([[2.0, 3.0]]), torch.eye(2), torch.tensor([1.0, 0.0]), torch.zeros(1, 2)
    )
    found = contributions(lambda x: x.prod(-1), layer)
    assert torch.allclose(found.total, torch.tensor([[3.0, 6.0]]))
    assert (found.start.item(), found.end.item(), found.whole.item()) == (0, 9, 0)
    assert found.residual.item() == -9
    assert found.residual_share.item() == pytest.approx(9 / 18)
    # As printed the path is (2α, 3α): 2 · 3/2 = 3 and 3 · 2/2 = 3.
    printed = contributions(lambda x: x.prod(-1), layer, path="printed")
    assert torch.allclose(printed.total, torch.tensor([[3.0, 3.0]]))


def test_a_position_by_hand() -> None:
    # f = Σᵢ relu(xᵢ): positions with α u v > 0 all along the path keep their value, the others add nothing.
    u = torch.tensor([[2.0], [-1.0], [0.5]])
    layer = Coded(torch.tensor([7]), u, torch.tensor([[3.0]]), torch.zeros(1), u * 3)
    found = contributions(lambda x: x.relu().sum((1, 2))[:, None], layer)
    assert torch.allclose(found.at[0, :, 0], torch.tensor([6.0, 0.0, 1.5]))
    assert found.completeness_error.item() < 1e-6
    assert found.residual.item() == 0


@pytest.mark.parametrize("path", ["shifted", "printed"])
@pytest.mark.parametrize("kind", ["probability", "logit"])
def test_equals_one_captum_call_per_concept(path: str, kind: str) -> None:
    network, picture = StandIn(), image()
    layer = layer_of(network, picture)
    onward = between(network, "one", None, picture)
    read = to_classes(onward, [2, 0], kind)  # type: ignore[arg-type]
    found = contributions(read, layer, steps=32, path=path)  # type: ignore[arg-type]
    base = layer.shift if path == "shifted" else torch.zeros_like(layer.shift)
    for place, concept in enumerate(layer.concepts.tolist()):
        rest = [other for other in range(len(layer.concepts)) if other != place]

        def forward(one: Tensor, others: Tensor) -> Tensor:
            return read(base + one[..., None] * layer.vectors[place] + others @ layer.vectors[rest])  # noqa: B023

        explainer = captum.attr.IntegratedGradients(forward)
        for target in range(2):
            inputs = (layer.u[None, :, place], layer.u[None][..., rest])
            alone = explainer.attribute(inputs, target=target, n_steps=32, method="gausslegendre")[0]
            assert torch.allclose(found.at[target, :, place], alone[0], atol=1e-6), concept


def test_equals_a_midpoint_sum_over_coefficients_between_layers() -> None:
    network, picture = StandIn(3), image(4)
    layer, later = layer_of(network, picture), layer_of(network, picture, "two", seed=5)
    targets = later.vectors[:3]
    found = contributions(to_concepts(between(network, "one", "two", picture), targets), layer, steps=1024)
    steps = 4000
    for t in range(3):
        direction = targets[t] / targets[t].norm()
        total = torch.zeros_like(layer.u)
        for alpha in torch.arange(steps, dtype=torch.float64).split(500):
            u = ((alpha + 0.5) / steps)[:, None, None] * layer.u
            u.requires_grad_()
            output = network.onward(u @ layer.vectors + layer.shift, "one", "two", picture[None])
            sum(output[:, i] @ direction for i in range(output.shape[1])).sum().backward()  # type: ignore[union-attr, attr-defined]
            assert u.grad is not None
            total += u.grad.sum(0) / steps
        assert torch.allclose(found.at[t], layer.u * total, atol=2e-3)
        assert torch.allclose(found.total[t], (layer.u * total).sum(0), atol=2e-3)


def test_a_constant_of_the_projection_does_not_matter() -> None:
    network, picture = StandIn(), image()
    layer = layer_of(network, picture)
    onward = between(network, "one", "two", picture)
    vectors = torch.randn(2, 6, dtype=torch.float64)
    plain = contributions(to_concepts(onward, vectors), layer, steps=16)
    centered = contributions(to_concepts(lambda x: onward(x) - network.bias_shift("two"), 3 * vectors), layer, steps=16)
    assert torch.allclose(plain.at, centered.at)


def test_steps_follow_the_completeness_error() -> None:
    network, picture = StandIn(), image()
    layer = layer_of(network, picture)
    read = to_classes(between(network, "one", None, picture), [0, 1, 2])
    few = contributions(read, layer, steps=2)
    found = contributions(read, layer, tolerance=1e-3)
    assert (found.completeness_error <= 1e-3).all()
    assert few.completeness_error.max() > 5e-3
    assert torch.allclose(found.total.sum(1), found.end - found.start, rtol=5e-3)
    strict = contributions(read, layer, tolerance=0.0, most=16)
    assert strict.steps.tolist() == [16, 16, 16]


def test_completeness_error_by_hand() -> None:
    def error(at: list[float], end: float) -> float:
        values = [torch.tensor([value]) for value in (0.0, end, end)]
        found = Contributions(torch.arange(len(at)), torch.tensor([[at]]), *values, torch.tensor([8]))
        return found.completeness_error.item()

    assert error([0.5, 0.5], 0.98) == pytest.approx(0.02, rel=1e-3)  # nothing is taken away
    assert error([0.6, -0.4], 0.21) == pytest.approx(0.01, rel=1e-3)  # of all that is added and taken away
    assert error([0.5, -0.49], 0.011) == pytest.approx(0.001 / 0.11, rel=1e-3)  # of ten times the sum
    assert error([0.5, -0.5], 0.0) == 0


def test_steps_go_where_the_target_changes() -> None:
    # σ(400 (x − ½)) rises from 0.02 to 0.98 within a fiftieth of the path.
    layer = Coded(torch.arange(2), torch.tensor([[0.4, 0.6]]), torch.ones(2, 1), torch.zeros(1), torch.zeros(1, 1))

    def read(x: Tensor) -> Tensor:
        return torch.sigmoid(400 * (x.sum((1, 2)) - 0.5))[:, None]

    assert contributions(read, layer, steps=16).completeness_error.item() > 0.05
    found = contributions(read, layer)
    assert found.completeness_error.item() <= 0.01
    assert found.steps.item() <= 64
    assert torch.allclose(found.total, torch.tensor([[0.4, 0.6]]), atol=0.01)


def test_only_active_concepts_are_touched() -> None:
    network, picture = StandIn(), image()
    features = network.features(picture[None], "one")[0]
    u = torch.zeros(16, 9, dtype=torch.float64)
    u[2, 4], u[5, 8] = 1.5, -2
    layer = coded(features, u, torch.randn(9, 5, dtype=torch.float64), network.bias_shift("one"))
    assert layer.concepts.tolist() == [4, 8]
    found = contributions(to_classes(between(network, "one", None, picture), [1]), layer)
    assert found.at.shape == (1, 16, 2)
    assert int((found.at != 0).sum()) <= 2
    assert torch.allclose(layer.approximation + layer.residual, features)


def test_a_batch_of_steps_changes_nothing() -> None:
    network, picture = StandIn(), image()
    layer = layer_of(network, picture)
    read = to_classes(between(network, "one", None, picture), [0, 1])
    assert torch.allclose(contributions(read, layer, steps=12, at_once=5).at, contributions(read, layer, steps=12).at)


def test_what_is_not_differentiable_is_named() -> None:
    layer = layer_of(StandIn(), image())
    with pytest.raises(UserError, match="not differentiable"):
        contributions(lambda x: x.detach().sum((1, 2))[:, None], layer)
    weight = torch.ones(1, requires_grad=True)
    with pytest.raises(UserError, match="does not depend"):
        contributions(lambda x: (weight * torch.ones(len(x)))[:, None], layer)
    with pytest.raises(UserError, match="finite"):
        contributions(lambda x: x.sum((1, 2))[:, None] * float("nan"), layer)
    with pytest.raises(UserError, match="Unknown path"):
        contributions(lambda x: x.sum((1, 2))[:, None], layer, path="short")  # type: ignore[arg-type]
