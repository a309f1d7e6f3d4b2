"""The drawing and the page: strangers' names stay names, pictures say where things are."""

import re

import numpy as np
from PIL import Image

from conceptlens.gig.document import Completeness, Edge, Graph, Node, Place, Row
from conceptlens.gig.pages.drawing import role, rows, strongest_path, svg
from conceptlens.gig.pages.page import GraphPictures, address, page
from conceptlens.gig.receptive_field_crops import box_of, draw_crop, placed


def small() -> Graph:
    def concept(layer: str, number: int, tops: list[str], shared: bool = False) -> Node:
        values = {"<b>cat</b>": 0.5, "dog": 0.1}
        return Node(
            id=f"{layer}/{number}",
            kind="concept",
            layer=layer,
            concept=number,
            name=f"concept {number}",
            contributions=values,
            shares=values,
            top_of=tops,
            shared=shared,
        )

    nodes = [
        Node(id="output/<b>cat</b>", kind="output", name="<b>cat</b>"),
        Node(id="output/dog", kind="output", name="dog"),
        concept("one", 4, ["<b>cat</b>"]),
        concept("one", 5, ["<b>cat</b>", "dog"], shared=True),
        concept("two", 7, ["dog"]),
        concept("two", 8, ["<b>cat</b>"]),
        Node(
            id="two/error",
            kind="error",
            layer="two",
            name="unexplained",
            shares={"dog": 0.25},
            contributions={"dog": 1},
        ),
    ]
    edges = [
        Edge(source="two/8", target="output/<b>cat</b>", value=2, weight=1),
        Edge(source="two/7", target="output/<b>cat</b>", value=-3, weight=1),
        Edge(source="one/5", target="two/8", value=0.4, weight=1),
        Edge(source="one/4", target="two/8", value=0.01, weight=0.025),
        Edge(source="two/error", target="output/dog", value=1, weight=0.5),
    ]
    row = {
        "grid": (2, 2),
        "channels": 3,
        "concepts": 9,
        "used": 2,
        "relative_l2": 0.5,
        "zero_share": 0.9,
        "error_share": 0.1,
    }
    return Graph(
        about="classes",
        title="<script>alert(1)</script>",
        model="m",
        outputs=["<b>cat</b>", "dog"],
        images=["a.png"],
        images_of={"dog": ["a.png"]},
        path="shifted",
        target="probability",
        rows=[Row(layer="one", **row), Row(layer="two", **row)],  # type: ignore[arg-type]
        nodes=nodes,
        edges=edges,
        completeness=Completeness(mean=0.001, worst=0.01, above=0, tolerance=0.01, steps_mean=8, steps_most=16),
    )


def test_rows_go_from_the_outputs_down() -> None:
    found = rows(small())
    assert [title for title, _ in found] == ["output", "two", "one"]
    assert [node.id for node in found[1][1]] == ["two/8", "two/7", "two/error"]  # the first output's concepts first
    assert [role(small(), node) for node in found[1][1]] == ["of0", "of1", "error"]
    assert role(small(), small().node("one/5")) == "shared"


def test_a_concept_of_the_data_that_is_first_for_no_output_stands_between_them() -> None:
    graph = small()
    graph.node("two/7").top_of = []
    graph.node("two/8").top_of = ["dog"]
    assert [node.id for node in rows(graph)[1][1]] == ["two/7", "two/8", "two/error"]


def test_the_strongest_way_takes_what_adds() -> None:
    assert strongest_path(small(), "<b>cat</b>") == ["output/<b>cat</b>", "two/8", "one/5"]
    assert strongest_path(small(), "dog") == ["output/dog"]


def test_weak_edges_are_not_drawn_and_signs_have_colors() -> None:
    drawn = svg(small(), {})
    assert len(re.findall(r'class="edge', drawn)) == 4
    assert len(re.findall(r'class="edge takes', drawn)) == 1
    assert len(re.findall(r'class="edge rest', drawn)) == 1


def test_a_graph_alone_has_its_own_colors() -> None:
    assert "<style" not in svg(small(), {})
    drawn = svg(small(), {}, alone=True)
    assert "--one: #0072b2" in drawn
    assert "svg.graph .edge { fill: none" in drawn


def test_names_from_strangers_stay_names() -> None:
    picture = address(Image.new("RGB", (8, 8), "red"))
    text = page(small(), GraphPictures({"one/4": [("<i>x</i>", picture)]}), links=[("back", "report.html")])
    for tag in ("<script", "<b>", "<i>x"):
        assert tag not in text
    assert picture in text


def test_a_receptive_field_is_cropped_with_context() -> None:
    field = np.zeros((40, 40))
    field[10:14, 20:28] = 1
    x0, y0, x1, y1 = box_of(field)
    assert x0 < 20 / 40 + 0.05
    assert x1 > 28 / 40 - 0.05
    assert np.isclose(x1 - x0, y1 - y0)
    assert 0.2 <= x1 - x0 < 0.5
    assert box_of(np.zeros((4, 4))) == (0, 0, 1, 1)
    corner = np.zeros((40, 40))
    corner[0, 39] = 1
    assert box_of(corner)[1:3] == (0.0, 1.0)  # a crop stays in its image
    assert draw_crop(Image.new("RGB", (40, 40), "white"), field, side=32).size == (32, 32)


def test_a_place_is_colored_where_the_concept_is() -> None:
    place = Place(image="a", grid=(2, 2), values=[[0, 0], [0, 3.0]])
    pixels = np.asarray(placed(Image.new("RGB", (40, 40), "white"), place, side=40)).astype(int)
    assert (pixels[2, 2] == 255).all()
    assert pixels[36, 36].sum() < 500
    nothing = Place(image="a", grid=(1, 1), values=[[-1.0]])
    assert (np.asarray(placed(Image.new("RGB", (4, 4), "white"), nothing, side=4)) == 255).all()
