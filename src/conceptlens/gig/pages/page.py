"""The page of a graph: one file, no scripts, nothing from the network.

The drawing, then a card for each node: what shows it best, where it is in images, what makes it and what it makes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from PIL import Image

from conceptlens.core.package_files import package_text
from conceptlens.gig.document import Edge, Graph, Node
from conceptlens.gig.pages.drawing import anchor, hover_rules, role, rows, strongest_path, svg
from conceptlens.pages.markup import Html, decimal, h, join, names, percent, table, table_row
from conceptlens.pages.pictures import data_address, encode_image
from conceptlens.pages.shell import render_page

FOOTER = (
    "Contributions are generalized integrated gradients. A concept is a direction that the network uses; it has no "
    "name until someone has looked at its samples. The numbers are in graph.json."
)
NEIGHBORS = 6
SIDE = 112  # pixels of a picture


@dataclass(frozen=True)
class GraphPictures:
    """Pictures as addresses: what shows a concept, and where it is; each with a few words."""

    crops: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)  # node → words, address
    places: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    images: Sequence[tuple[str, str]] = ()  # what the graph is of, if few

    @property
    def thumbnails(self) -> dict[str, str]:
        return {name: pictures[0][1] for name, pictures in self.crops.items() if pictures}


def address(picture: Image.Image, side: int = SIDE) -> str:
    """A small JPEG as an address."""
    small = picture.convert("RGB")
    small.thumbnail((side, side), Image.Resampling.LANCZOS)
    return data_address(encode_image(small, "JPEG", quality=82), "image/jpeg")


def page(
    graph: Graph,
    pictures: GraphPictures,
    *,
    links: Sequence[tuple[str, str]] = (),
    more: Sequence[tuple[str, Html]] = (),
) -> str:
    """The whole page.

    Args:
        graph: What it shows.
        pictures: Its pictures.
        links: Other pages: words and address.
        more: Further sections: title and content.
    """
    sections: list[tuple[str, str, Html]] = [
        ("graph", "How concepts contribute to each other", _drawing(graph, pictures)),
        ("layers", "Layers", _layers(graph)),
    ]
    sections += [(f"more{number}", title, content) for number, (title, content) in enumerate(more)]
    sections.append(("concepts", "Concepts", _cards(graph, pictures)))
    header = [h("h1", graph.title), h("p", _summary(graph), class_="result")]
    style = package_text("conceptlens.gig.pages", "style.css") + hover_rules(graph)
    return render_page(graph.title, header, sections, footer=FOOTER, style=style, links=links)


def _summary(graph: Graph) -> str:
    errors = graph.completeness
    way = [graph.node(name) for name in strongest_path(graph, graph.outputs[0])]
    words = " ← ".join(node.name if node.layer is None else f"{node.layer} {node.name}" for node in way)
    images = f"{len(graph.images)} image{'s' * (len(graph.images) != 1)}"
    return (
        f"{graph.model}, {images}. The strongest path: {words}. The sum of contributions misses what it must be by "
        f"{percent(errors.mean, 2)} of all that concepts add and take away on average, and by "
        f"{percent(errors.worst, 1)} at most."
    )


def _drawing(graph: Graph, pictures: GraphPictures) -> Html:
    key = [
        h("span", h("i", class_=f"swatch {role(graph, node)}"), node.name)
        for node in graph.nodes
        if node.kind == "output"
    ]
    if any(node.shared for node in graph.nodes):
        key.append(h("span", h("i", class_="swatch shared"), "shared"))
    images = (
        h("div", (_figure(words, to) for words, to in pictures.images), class_="crops") if pictures.images else None
    )
    return join(
        [
            images,
            h("p", key, class_="key small"),
            h(
                "div",
                svg(graph, pictures.thumbnails),
                class_="scroll",
                tabindex="0",
                role="region",
                aria_label=graph.title,
            ),
            h(
                "p",
                "Point at a node to see its edges; click it to see its card. Blue edges are positive contributions, "
                "orange edges negative ones; wider edges contribute more. Thin gray edges come from the part of a "
                "layer that no concept explains; its card says how large it is. The percentage is a concept's share of "
                "all contributions of its layer to the output. Unexplained is the share of the output that comes from "
                "the layer but not from its reconstruction.",
                class_="note",
            ),
        ]
    )


def _layers(graph: Graph) -> Html:
    body = [
        table_row(
            *(row.layer, f"{row.grid[0]} × {row.grid[1]}", row.channels, f"{row.concepts:,}", f"{row.used:.0f}"),
            *(decimal(row.relative_l2), percent(row.zero_share, 2), percent(row.error_share)),
        )
        for row in reversed(graph.rows)
    ]
    head = ["layer", "positions", "channels", "concepts", "used by an image", "relative l2", "zeros", "unexplained"]
    errors = graph.completeness
    note = (
        f"Path {graph.path}, target {graph.target}. Steps of the integrals: {errors.steps_mean:.0f} on average, "
        f"{errors.steps_most} at most; completeness error {percent(errors.mean, 2)} on average, "
        f"{percent(errors.above, 1)} of integrals above {percent(errors.tolerance, 1)}."
    )
    return join(
        [table("Reconstruction on the images of this graph", head, body, class_="figures"), h("p", note, class_="note")]
    )


def _figure(words: str, to: str, side: int | None = None) -> Html:
    return h("figure", h("img", src=to, alt=words, title=words, width=side), h("figcaption", words))


def _cards(graph: Graph, pictures: GraphPictures) -> Html:
    cards: list[Html] = []
    for title, nodes in rows(graph):
        cards.append(h("h3", title))
        cards += [_card(graph, node, pictures) for node in nodes]
    return join(cards)


def _card(graph: Graph, node: Node, pictures: GraphPictures) -> Html:
    title = node.name if node.layer is None else f"{node.layer} · {node.name}"
    shares = [
        f"{output} {value:+.3g} ({percent(node.shares[output])})"
        for output, value in sorted(node.contributions.items(), key=lambda pair: -abs(pair[1]))[:6]
    ]
    facts = [f"contributes to {names(shares, 6)}"] if shares else []
    if node.kind == "concept":
        facts.append(f"used in {node.active} of {len(graph.images)} images")
        if node.samples is not None:
            facts.append(f"{node.samples} samples in its cluster")
    crops, places = pictures.crops.get(node.id, ()), pictures.places.get(node.id, ())
    return h(
        "article",
        h("h4", title),
        h("p", "; ".join(facts), class_="small") if facts else None,
        [h("p", "Nearest samples", class_="small"), h("div", (_figure(*crop) for crop in crops), class_="crops")]
        if crops
        else None,
        [h("p", "Where it is active", class_="small"), h("div", (_figure(*place) for place in places), class_="crops")]
        if places
        else None,
        h(
            "div",
            _neighbors(graph, "receives from", [(edge, edge.source) for edge in graph.into(node.id)]),
            _neighbors(graph, "contributes to", [(edge, edge.target) for edge in graph.out_of(node.id)]),
            class_="columns",
        ),
        class_="card",
        id=anchor(graph, node),
    )


def _neighbors(graph: Graph, title: str, edges: Sequence[tuple[Edge, str]]) -> Html | None:
    if not edges:
        return None
    lines = []
    for edge, other in edges[:NEIGHBORS]:
        node = graph.node(other)
        words = node.name if node.layer is None else f"{node.layer} {node.name}"
        bar = h("i", class_=f"bar{'' if edge.value >= 0 else ' takes'}", style=f"width:{4 + 76 * edge.weight:.0f}px")
        lines.append(h("li", bar, h("a", words, href=f"#{anchor(graph, node)}"), f" {edge.value:+.3g}"))
    return h("div", h("h5", title), h("ul", lines))
