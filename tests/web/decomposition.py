"""Decomposition folders that are drawn, not computed: graphs of any size, with pictures, in a moment."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from conceptlens.core.files import write_bytes
from conceptlens.gig.document import About, Completeness, Crop, Edge, Graph, Node, Place, Row
from conceptlens.gig.pages.pictures import image_file, sheet_file
from conceptlens.runs.folder import RunFolder

CROPS = 4
IMAGES = 6


def draw_graph(
    *,
    about: About = "classes",
    outputs: Sequence[str] = ("cat", "dog"),
    layers: int = 3,
    concepts: int = 6,
    sources: int | None = None,
    seed: int = 0,
) -> Graph:
    """A graph with so many layers and so many concepts in each.

    Args:
        about: What it says that it is of.
        outputs: Names.
        layers: Besides the row of outputs.
        concepts: Of each layer, its error not counted.
        sources: Edges into each node; None for all that there can be.
        seed: Of contributions.
    """
    chance = np.random.default_rng(seed)
    images = [f"{number:02}.png" for number in range(IMAGES)]
    nodes = [Node(id=f"output/{name}", kind="output", name=name) for name in outputs]
    rows, edges = [], []
    for layer in range(layers):
        name = f"layer{layer + 1}"
        shares = chance.dirichlet(np.ones(concepts + 1), len(outputs)).round(4)
        best = np.argsort(-shares[:, :concepts], axis=1)[:, : max(2, concepts // 2)]
        for number in range(concepts):
            of = [output for place, output in enumerate(outputs) if number in best[place]]
            nodes.append(
                Node(
                    id=f"{name}/{number}",
                    kind="concept",
                    layer=name,
                    concept=number,
                    name=f"concept {number}",
                    contributions={output: float(shares[place, number]) for place, output in enumerate(outputs)},
                    shares={output: float(shares[place, number]) for place, output in enumerate(outputs)},
                    top_of=of,
                    shared=len(of) > 1,
                    active=2,
                    active_of=dict.fromkeys(outputs, 1),
                    samples=10 + number,
                    crops=[
                        Crop(image=images[crop], position=crop, cosine=round(0.9 - crop / 10, 2), box=(0, 0, 1, 1))
                        for crop in range(CROPS)
                    ],
                    sheet=sheet_file(f"{name}/{number}"),
                    places=[Place(image=images[0], grid=(2, 2), values=[[0, 1], [0.5, 0]])],
                )
            )
        error = {output: float(shares[place, -1]) for place, output in enumerate(outputs)}
        nodes.append(
            Node(id=f"{name}/error", kind="error", layer=name, name="unexplained", contributions=error, shares=error)
        )
        rows.append(
            Row(
                layer=name,
                grid=(2, 2),
                channels=8,
                concepts=9,
                used=3,
                relative_l2=0.4,
                zero_share=0.9,
                error_share=float(np.mean(list(error.values()))),
            )
        )
    names = [row.layer for row in rows]
    for below, above in zip(names, [*names[1:], None], strict=True):
        starts = [node.id for node in nodes if node.layer == below]
        targets = [node.id for node in nodes if node.layer == above and node.kind != "error"]
        drawn = []
        for target in targets:
            some = starts if sources is None else [starts[at] for at in chance.choice(len(starts), sources, False)]
            drawn += [(start, target, float(chance.normal() ** 3)) for start in some]
        largest = max(abs(value) for start, _, value in drawn if not start.endswith("error"))
        edges += [
            Edge(source=start, target=target, value=value, weight=min(1.0, abs(value) / largest))
            for start, target, value in drawn
        ]
    return Graph(
        about=about,
        title=f"drawn: {' and '.join(outputs)}",
        model="drawn",
        outputs=list(outputs),
        images=images,
        images_of=dict.fromkeys(outputs, images),
        path="shifted",
        target="probability",
        rows=rows,
        nodes=nodes,
        edges=edges,
        completeness=Completeness(mean=0.001, worst=0.01, above=0, tolerance=0.01, steps_mean=8, steps_most=16),
        pictures={name: image_file(name) for name in images},
    )


def write_decomposition(folder: Path, graphs: dict[str, Graph], *, pictures: bool = True) -> Path:
    """A folder as `conceptlens decompose` leaves it: file name → graph."""
    with RunFolder.create(folder) as run:
        run.update(kind="decompose", method="gig", status="done", model={"name": "drawn"}, data={"name": "drawn"})
    for name, graph in graphs.items():
        graph.write(folder / name)
        for node in graph.nodes if pictures else []:
            if node.sheet:
                write_bytes(folder / node.sheet, _sheet(node.concept or 0))
        for image in graph.images if pictures else []:
            write_bytes(folder / graph.pictures[image], _jpeg(Image.new("RGB", (160, 160), (200, 190, 170))))
    return folder


_made: dict[int, bytes] = {}


def _sheet(number: int) -> bytes:
    """Four squares of a color of its own; few different ones, so that a thousand are made in a moment."""
    key = number % 12
    if key not in _made:
        sheet = Image.new("RGB", (CROPS * 112, 112))
        for crop in range(CROPS):
            sheet.paste((40 + 17 * key, 220 - 15 * key, 60 + 40 * crop), (crop * 112, 0, crop * 112 + 112, 112))
        _made[key] = _jpeg(sheet)
    return _made[key]


def _jpeg(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=80)
    return buffer.getvalue()
