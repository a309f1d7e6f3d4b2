"""The graph against contributions computed one by one."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from conceptlens.core.errors import UserError
from conceptlens.gig.attribution.integrated_gradients import contributions
from conceptlens.gig.attribution.targets import between, to_classes, to_concepts
from conceptlens.gig.dictionaries.coded import Coded, coded
from conceptlens.gig.document import Graph
from conceptlens.gig.graph import Drawn, Known, Seen, build_graph
from tests.gig.standin import StandIn, image

NAMES = ["cat", "dog", "owl"]


class LeastSquares:
    """Made-up concepts; coefficients of the two that are nearest, by least squares."""

    def __init__(self, network: StandIn, layer: str, k: int = 14) -> None:
        width = 5 if layer == "one" else 6
        self.vectors = torch.randn(k, width, generator=torch.Generator().manual_seed(width)).to(torch.float64)
        self.shift = network.bias_shift(layer)

    def code(self, features: Tensor) -> Coded:
        u = torch.zeros(len(features), len(self.vectors), dtype=torch.float64)
        for p, x in enumerate(features - self.shift):
            best = (x @ self.vectors.T / self.vectors.norm(dim=1)).topk(2).indices
            u[p, best] = torch.linalg.lstsq(self.vectors[best].T, x[:, None]).solution[:, 0]
        return coded(features, u, self.vectors, self.shift)


@pytest.fixture(scope="module")
def parts() -> tuple[StandIn, dict[str, LeastSquares], list[Seen]]:
    network = StandIn(2)
    return (
        network,
        {n: LeastSquares(network, n) for n in network.layers},
        [Seen(f"{n}.png", image(n)) for n in range(4)],
    )


def draw(
    parts: tuple[StandIn, dict[str, LeastSquares], list[Seen]], groups: dict[int, list[Seen]], about: str
) -> Graph:
    return build_graph(
        *parts[:2], groups, NAMES, about=about, title="t", model="m", how=Drawn(concepts=2, shared=1, steps=64)
    )  # type: ignore[arg-type]


def test_values_are_those_of_single_calls(parts: tuple[StandIn, dict[str, LeastSquares], list[Seen]]) -> None:
    network, coders, images = parts
    graph = draw(parts, {0: images[:2], 2: images[2:]}, "classes")
    node = next(node for node in graph.nodes if node.kind == "concept" and node.layer == "one" and "owl" in node.top_of)
    values = []
    for seen in images[2:]:
        layer = coders["one"].code(network.features(seen.pixels[None], "one")[0])
        found = contributions(to_classes(between(network, "one", None, seen.pixels), [2]), layer, steps=64)
        values.append(float(found.total[0, layer.concepts == node.concept].sum()))
    assert node.contributions["owl"] == pytest.approx(sum(values) / 2)

    edge = next(edge for edge in graph.edges if edge.source == node.id)
    target = graph.node(edge.target)
    values = []
    for seen in images:
        layer = coders["one"].code(network.features(seen.pixels[None], "one")[0])
        read = to_concepts(between(network, "one", "two", seen.pixels), coders["two"].vectors[[target.concept]])
        values.append(float(contributions(read, layer, steps=64).total[0, layer.concepts == node.concept].sum()))
    assert edge.value == pytest.approx(sum(values) / 4)


def test_error_nodes_complete_the_sum(parts: tuple[StandIn, dict[str, LeastSquares], list[Seen]]) -> None:
    network, coders, images = parts
    how = Drawn(concepts=99, tolerance=1e-4)
    graph = build_graph(network, coders, {1: images[:1]}, NAMES, about="image", title="t", model="m", how=how)
    layer = coders["two"].code(network.features(images[0].pixels[None], "two")[0])
    found = contributions(to_classes(between(network, "two", None, images[0].pixels), [1]), layer, tolerance=1e-4)
    negative = float(found.total.clamp_max(0).sum())
    shown = sum(edge.value for edge in graph.into("output/dog"))
    assert shown + negative == pytest.approx(float(found.whole - found.start), abs=1e-4)
    error = graph.node("two/error")
    assert error.contributions["dog"] == pytest.approx(float(found.residual))
    assert error.shares["dog"] == pytest.approx(float(found.residual_share))
    assert graph.completeness.worst <= 0.05
    assert graph.rows[0].layer == "one"
    assert 0 < graph.rows[0].zero_share < 1


def test_weights_reach_from_0_to_1_between_two_rows(parts: tuple[StandIn, dict[str, LeastSquares], list[Seen]]) -> None:
    graph = draw(parts, {0: parts[2][:2], 1: parts[2]}, "classes")
    for layer in ("one", "two"):
        between_rows = [edge for edge in graph.edges if edge.source.startswith(f"{layer}/")]
        assert max(edge.weight for edge in between_rows) == 1
        assert min(edge.weight for edge in between_rows) >= 0
    assert all(node.active >= 1 and node.places for node in graph.nodes if node.kind == "concept" and node.top_of)


def test_a_graph_of_the_data_chooses_over_all_outputs(
    parts: tuple[StandIn, dict[str, LeastSquares], list[Seen]], tmp_path: Path
) -> None:
    graph = draw(parts, {0: parts[2][:1], 1: parts[2][1:2], 2: parts[2][2:]}, "data")
    assert all(
        len([n for n in graph.nodes if n.layer == layer and n.kind == "concept"]) <= 3 for layer in ("one", "two")
    )
    graph.write(tmp_path / "graph.json")
    assert Graph.read(tmp_path / "graph.json") == graph
    (tmp_path / "graph.json").write_text('{"schema": 1, "about": "image"}')
    with pytest.raises(UserError, match="Draw the graph again"):
        Graph.read(tmp_path / "graph.json")


def test_no_image_is_said(parts: tuple[StandIn, dict[str, LeastSquares], list[Seen]]) -> None:
    with pytest.raises(UserError, match="No image of 'dog'"):
        draw(parts, {0: parts[2], 1: []}, "classes")


def test_graphs_of_a_run_share_what_they_know() -> None:
    network = StandIn(2)
    coders = {name: LeastSquares(network, name) for name in network.layers}
    known = Known(network, coders)
    seen = Seen("a", image())
    first = known.to_output("one", seen, 1, Drawn())
    assert known.to_output("one", seen, 1, Drawn()) is first
    assert known.code("one", seen) is known.code("one", seen)
    whole = Drawn().contributions(to_classes(between(network, "one", None, seen.pixels), [1]), known.code("one", seen))
    torch.testing.assert_close(first.total, whole.total)
    torch.testing.assert_close(first.completeness_error, whole.completeness_error)
    assert known.to_output("one", seen, 1, Drawn(target="logit")) is not first
