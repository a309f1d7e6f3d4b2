"""Curves by hand, against a naive loop, and in the right order."""

import math

import pytest
import torch

from conceptlens.core.errors import UserError
from conceptlens.gig.attribution.orders import ORDERS, by_gradient
from conceptlens.gig.attribution.targets import between, to_classes, to_concepts
from conceptlens.gig.dictionaries.coded import Coded
from conceptlens.gig.graph import Seen
from conceptlens.gig.validation.curves import area, concept_curves, partial_sums, projection_read
from conceptlens.gig.validation.validation import agreement, class_curves, layer_curves, trade_off, validate
from tests.gig.attribution.test_integrated_gradients import layer_of
from tests.gig.standin import StandIn, image
from tests.gig.test_graph import LeastSquares


def test_concepts_go_in_and_out_in_order() -> None:
    layer = Coded(torch.arange(3), torch.ones(1, 3), torch.eye(3), torch.zeros(3), torch.zeros(1, 3))
    order = torch.tensor([2, 0, 1])
    assert partial_sums(layer, order, 4)[:, 0].tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1]]
    curves = concept_curves(lambda x: x[:, 0], layer, -order.argsort()[None].float().expand(3, -1), points=4)
    assert curves.insertion.T.tolist() == partial_sums(layer, order, 4)[:, 0].tolist()
    assert curves.deletion.T.tolist() == [[1, 1, 1], [1, 1, 0], [0, 1, 0], [0, 0, 0]]


def test_curves_are_those_of_every_set_of_concepts_by_itself() -> None:
    network, picture = StandIn(), image()
    layer = layer_of(network, picture)
    read = to_classes(between(network, "one", None, picture), [0, 1, 2])
    scores = torch.randn(3, len(layer.concepts), generator=torch.Generator().manual_seed(1))
    scores[2] = scores[0]  # the same order twice
    found = concept_curves(read, layer, scores, points=5)
    for target, score in enumerate(scores):
        order = score.argsort(descending=True)
        for step, number in enumerate(round(share * len(order)) for share in (0, 0.25, 0.5, 0.75, 1)):
            for curve, chosen in ((found.insertion, order[:number]), (found.deletion, order[number:])):
                value = read((layer.u[:, chosen] @ layer.vectors[chosen] + layer.shift)[None])[0, target]
                assert float(curve[target, step]) == pytest.approx(float(value), rel=1e-5)


def test_curves_of_a_sum_by_hand() -> None:
    # f = Σ x; concepts add 4, −1 and 2: insertion in this order 0, 4, 6, 5; deletion 5, 1, −1, 0.
    layer = Coded(
        torch.arange(3), torch.tensor([[4.0, -1.0, 2.0]]), torch.ones(3, 1), torch.zeros(1), torch.zeros(1, 1)
    )
    found = concept_curves(lambda x: x.sum((1, 2))[:, None], layer, torch.tensor([[4.0, -1.0, 2.0]]), points=4)
    assert found.insertion.tolist() == [[0, 4, 6, 5]]
    assert found.deletion.tolist() == [[5, 1, -1, 0]]
    assert found.insertion_area.item() == pytest.approx((0 + 2 * 4 + 2 * 6 + 5) / 6)
    assert found.difference.item() == pytest.approx((25 - (5 + 2 - 2 + 0)) / 6)
    assert area(torch.tensor([1.0, 1.0])).item() == 1


def test_projection_score_is_the_largest_position_as_a_share() -> None:
    network, picture = StandIn(), image()
    layer = layer_of(network, picture)
    vectors = torch.randn(2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    read = projection_read(between(network, "one", "two", picture), layer, vectors)
    half = layer.part / 2 + layer.shift
    for t in range(2):
        largest = [
            max(float(w @ vectors[t] / vectors[t].norm()) for w in network.onward(x[None], "one", "two", picture)[0])
            for x in (half, layer.approximation)
        ]
        assert float(read(half[None])[0, t]) == pytest.approx(largest[0] / largest[1])
    assert torch.allclose(read(layer.approximation[None]), torch.ones(1, 2, dtype=torch.float64))


def test_gradient_times_input_is_captums() -> None:
    network, picture = StandIn(), image()
    layer = layer_of(network, picture)
    read = to_concepts(between(network, "one", "two", picture), torch.randn(3, 6, dtype=torch.float64))
    assert torch.allclose(by_gradient(read, layer, 0), ORDERS["captum gradient x activation"](read, layer, 0))
    for order in ORDERS.values():
        scores = order(read, layer, 0)
        assert scores.shape == (3, len(layer.concepts))
        assert torch.equal(scores, order(read, layer, 0))  # a seed says it all


def test_agreement_by_hand() -> None:
    network = StandIn(2)
    images = [Seen(f"{n}", image(n)) for n in range(3)]
    found = agreement(network, "two", LeastSquares(network, "two"), images)
    same, divergence = 0, 0.0
    for seen in images:
        code = LeastSquares(network, "two").code(network.features(seen.pixels[None], "two")[0])
        p, q = (
            network.onward(x[None], "two", None, seen.pixels)[0].softmax(0) for x in (code.features, code.approximation)
        )
        same += int(p.argmax() == q.argmax())
        divergence += sum(float(a) * math.log(float(a) / float(b)) for a, b in zip(p, q, strict=True))
    assert found.same_class == pytest.approx(same / 3)
    assert found.divergence == pytest.approx(divergence / 3)


def test_reconstruction_by_hand() -> None:
    features = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    made = torch.tensor([[3.0, 0.0], [0.0, 2.0]])  # errors 4/5 and 0
    point = trade_off(features, torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]]), made, 0.1)
    assert (point.relative_l2, point.zero_share, point.used) == pytest.approx((0.4, 5 / 8, 1.5))


def test_gig_beats_chance_to_the_class_and_between_layers() -> None:
    network = StandIn(2)
    coders = {name: LeastSquares(network, name) for name in network.layers}
    images = []
    for number in range(4):
        picture = image(number)
        output = int(network.onward(network.features(picture[None], "one"), "one", None, picture[None]).argmax())
        images.append((Seen(f"{number}", picture), output))
    found = validate(network, coders, images, points=11)
    for part in (*found.classes, *found.between):
        gig, chance, _ = part.orders
        assert (gig.order, chance.order) == ("gig", "random")
        assert gig.over_random == pytest.approx(gig.difference - chance.difference)
        assert gig.over_random > 0
        assert gig.insertion[-1] == pytest.approx(chance.insertion[-1])  # all concepts are in
        assert gig.insertion[0] == pytest.approx(gig.deletion[-1])
    assert found.between[0].orders[0].insertion[-1] == pytest.approx(1)


def test_an_unknown_order_is_named() -> None:
    network = StandIn()
    with pytest.raises(UserError, match="gradient x input"):
        class_curves(network, "one", LeastSquares(network, "one"), [(Seen("a", image()), 0)], orders=["gradient input"])
    with pytest.raises(UserError, match="no concept adds"):
        layer_curves(network, ("one", LeastSquares(network, "one")), ("two", LeastSquares(network, "two")), [])


def test_class_curves_are_of_the_probability_whatever_ranks() -> None:
    network, picture = StandIn(), image()
    coder = LeastSquares(network, "two")
    found = class_curves(network, "two", coder, [(Seen("a", picture), 1)], target="logit", points=5)
    code = coder.code(network.features(picture[None], "two")[0])
    end = to_classes(between(network, "two", None, picture), [1])(code.approximation[None])
    assert found.orders[0].insertion[-1] == pytest.approx(float(end))
