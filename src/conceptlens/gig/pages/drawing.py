"""The graph as an SVG: outputs at the top, layers below, edges as wide and as dark as their contribution.

Blue edges add, orange ones take away, gray ones, thin whatever they carry, are what no concept explains. Weak ones are
left out, as a hundred hairlines hide the ten that matter; the file `graph.json` has them all.
"""

from collections.abc import Mapping
from itertools import pairwise

from conceptlens.core.package_files import package_text
from conceptlens.gig.document import Edge, Graph, Node
from conceptlens.pages.markup import Html, h, percent

NODE, GAP, ROW, MARGIN, HEAD = 70, 14, 152, 96, 20
WEAKEST = 0.08  # of the strongest edge between two rows


def anchor(graph: Graph, node: Node) -> str:
    """The id of a node in its page: short, and without characters from outside."""
    return f"n{next(place for place, each in enumerate(graph.nodes) if each.id == node.id)}"


def role(graph: Graph, node: Node) -> str:
    """The class of a node in the style sheet: whose concept it is."""
    if node.kind == "error":
        return "error"
    if node.kind == "output":
        return f"of{graph.outputs.index(node.name) % 5}" if len(graph.outputs) > 1 else "of0"
    if node.shared:
        return "shared"
    return f"of{graph.outputs.index(node.top_of[0]) % 5}" if node.top_of and graph.about != "data" else "of0"


def rows(graph: Graph) -> list[tuple[str, list[Node]]]:
    """Title and nodes of each row, from the outputs down; shared concepts stand between those of two outputs."""
    titled = [("output", [node for node in graph.nodes if node.kind == "output"])]
    for row in reversed(graph.rows):
        own = [node for node in graph.nodes if node.layer == row.layer]
        concepts = [node for node in own if node.kind == "concept"]
        if len(graph.outputs) == 2:
            concepts.sort(
                key=lambda node: 2 * graph.outputs.index(node.top_of[0]) if node.top_of and not node.shared else 1
            )
        titled.append((row.layer, concepts + [node for node in own if node.kind == "error"]))
    return titled


def svg(graph: Graph, thumbnails: Mapping[str, str], *, alone: bool = False) -> Html:
    """The drawing.

    Args:
        graph: What is drawn.
        thumbnails: Node → picture as an address.
        alone: As a file or in a notebook, with its own colors; on its page, nodes lead to their cards.
    """
    grid = rows(graph)
    widest = max(len(nodes) for _, nodes in grid)
    width = MARGIN + widest * (NODE + GAP) + GAP
    height = HEAD + len(grid) * ROW - (ROW - NODE) + 48
    place: dict[str, tuple[float, float]] = {}
    for number, (_, nodes) in enumerate(grid):
        free = widest - len(nodes)
        for column, node in enumerate(nodes):
            place[node.id] = (MARGIN + (column + free / 2) * (NODE + GAP) + GAP, HEAD + number * ROW)
    names = {node.id: anchor(graph, node) for node in graph.nodes}
    edges = sorted(
        (edge for edge in graph.edges if edge.weight >= WEAKEST and {edge.source, edge.target} <= place.keys()),
        key=lambda edge: edge.weight,
    )
    lines = [
        h(
            "path",
            h("title", f"{_spoken(graph, edge.source)} → {_spoken(graph, edge.target)}: {edge.value:+.3g}"),
            d=_curve(place[edge.source], place[edge.target], 2 if edge.target.startswith("output/") else 30),
            class_=f"edge {_look(edge)} {names[edge.source]}o {names[edge.target]}i",
            **_stroke(edge),
        )
        for edge in edges
    ]
    labels = [
        h("text", h("title", title), _short(title), x=4, y=HEAD + number * ROW + NODE / 2, class_="row")
        for number, (title, _) in enumerate(grid)
    ]
    nodes = [node for _, row in grid for node in row]
    boxes = [_node(graph, node, place[node.id], thumbnails.get(node.id), links=not alone) for node in nodes]
    return h(
        "svg",
        h("title", graph.title),
        h("style", _own_style()) if alone else None,
        lines,
        labels,
        boxes,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        style=f"min-width:{0.8 * width:.0f}px",  # on a narrower page it scrolls instead of shrinking further
        role="img",
        class_="graph",
    )


def _own_style() -> Html:
    """The rules of the page's graph, with the colors of its light scheme on white."""
    rules = package_text("conceptlens.gig.pages", "style.css").splitlines()
    root, _, _ = package_text("conceptlens.pages", "style.css").partition("}")
    colors = root[root.index("--page") :]
    own = [rule for rule in rules if rule.startswith("svg.graph")]
    return Html("\n".join([f"svg.graph {{ {colors} background: #ffffff; }}", *own]))


def _look(edge: Edge) -> str:
    """Blue, orange, or gray for what no concept explains."""
    if edge.source.endswith("/error"):
        return "rest"
    return "adds" if edge.value >= 0 else "takes"


def _stroke(edge: Edge) -> dict[str, str]:
    """As wide and dark as the contribution; an error, which may be larger than all concepts, stays thin."""
    if _look(edge) == "rest":
        return {"stroke_width": "1.1", "stroke_opacity": f"{0.15 + 0.3 * edge.weight:.2f}"}
    return {"stroke_width": f"{0.6 + 6 * edge.weight:.2f}", "stroke_opacity": f"{0.15 + 0.75 * edge.weight:.2f}"}


def hover_rules(graph: Graph) -> str:
    """Style rules that leave only a node's own edges when it is pointed at."""
    rules = []
    for node in graph.nodes:
        name = anchor(graph, node)
        rules.append(f"svg.graph:has(#g{name}:hover) .edge:not(.{name}o):not(.{name}i){{stroke-opacity:.04}}")
    return "\n".join(rules)


def _short(title: str) -> str:
    """The end of a module's name says most."""
    return title if len(title) <= 13 else f"…{title[-12:]}"


def _spoken(graph: Graph, name: str) -> str:
    node = graph.node(name)
    return node.name if node.layer is None else f"{node.layer} {node.name}"


def _curve(source: tuple[float, float], target: tuple[float, float], below: int) -> str:
    x0, y0 = source[0] + NODE / 2, source[1]
    x1, y1 = target[0] + NODE / 2, target[1] + NODE + below
    middle = (y0 + y1) / 2
    return f"M{x0:.0f} {y0:.0f}C{x0:.0f} {middle:.0f} {x1:.0f} {middle:.0f} {x1:.0f} {y1:.0f}"


def _node(graph: Graph, node: Node, place: tuple[float, float], picture: str | None, links: bool) -> Html:
    x, y = place
    name = anchor(graph, node)
    inside: list[Html] = [
        h("rect", x=f"{x:.0f}", y=f"{y:.0f}", width=NODE, height=NODE, rx=8, class_=f"box {role(graph, node)}")
    ]
    if picture is not None:
        inside.append(h("image", href=picture, x=f"{x + 4:.0f}", y=f"{y + 4:.0f}", width=NODE - 8, height=NODE - 8))
    share = max(node.shares.values(), key=abs, default=None)
    if node.kind == "output":
        parts = _halves(node.name)
        for number, part in enumerate(parts):
            line = y + NODE / 2 + 5 + 15 * (number - (len(parts) - 1) / 2)
            inside.append(h("text", part, x=f"{x + NODE / 2:.0f}", y=f"{line:.0f}", class_="inside"))
    elif node.kind == "error":
        inside.append(
            h("text", percent(share, 0), x=f"{x + NODE / 2:.0f}", y=f"{y + NODE / 2 + 5:.0f}", class_="inside")
        )
        inside.append(h("text", "unexplained", x=f"{x + NODE / 2:.0f}", y=f"{y + NODE + 14:.0f}", class_="under"))
    else:
        inside.append(h("text", node.name, x=f"{x + NODE / 2:.0f}", y=f"{y + NODE + 14:.0f}", class_="under"))
        inside.append(
            h("text", percent(share), x=f"{x + NODE / 2:.0f}", y=f"{y + NODE + 27:.0f}", class_="under faint")
        )
    shape = h("g", h("title", _told(node)), inside, id=f"g{name}")
    return h("a", shape, href=f"#{name}") if links else shape


def _told(node: Node) -> str:
    parts = [f"{output}: {value:+.3g} ({percent(node.shares[output])})" for output, value in node.contributions.items()]
    return " · ".join([node.name, *parts[:6]])


def _halves(name: str) -> list[str]:
    """A class's name on at most three short lines."""
    lines: list[str] = []
    for word in name.replace("_", " ").split():
        if lines and len(lines[-1]) + len(word) < 10:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [line if len(line) <= 11 else f"{line[:10]}…" for line in lines[:3]]


def strongest_path(graph: Graph, output: str) -> list[str]:
    """From an output down, the concept that adds most to the one before it, row by row."""
    way = [f"output/{output}"]
    for _ in pairwise([*graph.rows, None]):
        into = [edge for edge in graph.into(way[-1]) if edge.value > 0 and graph.node(edge.source).kind == "concept"]
        if not into:
            break
        way.append(max(into, key=lambda edge: edge.value).source)
    return way
