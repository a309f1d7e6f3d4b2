"""Graphs of a decomposition: read from fixed names, checked, kept while their files stay as they are.

Nobody names a file here: a graph is one of a few, a node and an image are numbers, and the names of pictures are made
from what they show (`gig/pages/pictures.py`).
"""

import json
import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from conceptlens.core.errors import UserError
from conceptlens.core.files import parse_json, read_checked, read_json, writer_of
from conceptlens.core.upgrades import upgrade
from conceptlens.gig.document import Graph
from conceptlens.gig.names import with_names
from conceptlens.gig.pages.pictures import image_file, sheet_file
from conceptlens.runs.annotations import FILE as ANNOTATIONS
from conceptlens.runs.annotations import read_annotations
from conceptlens.web.schemas.graph import (
    EdgeColumns,
    GraphAnswer,
    GraphName,
    ImagePart,
    NodeAnswer,
    NodePart,
    SeenPlace,
)
from conceptlens.web.server.answers import tag_of
from conceptlens.web.server.folders import MARK, RunEntry
from conceptlens.web.server.kinds import kind_of
from conceptlens.web.server.problems import missing, not_found

FILES: dict[GraphName, str] = {
    "classes": "graph.json",
    "image": "graph-image.json",
    "data": "graph-data.json",
    "noise": "graph-noise.json",
    "attack": "graph-attack.json",
}
BYTES = 300_000_000  # of a file that is read
EDGES = 60_000  # that are sent, strongest first
EXAMPLES = 8  # images that are named
KEPT = 4  # graphs in memory


@dataclass(frozen=True)
class OpenGraph:
    """A graph that is sound."""

    name: GraphName
    graph: Graph
    stamp: tuple[int, int]
    others: list[GraphName]
    named: int = 0  # when people named nodes last

    @property
    def tag(self) -> str:
        return tag_of("graph", self.name, self.stamp, self.others, self.named)

    @cached_property
    def body(self) -> bytes:
        """The answer."""
        return self._answer().model_dump_json(by_alias=True).encode()

    def _answer(self) -> GraphAnswer:
        graph = self.graph
        rows = {row.layer: place for place, row in enumerate(graph.rows)}
        outputs = {name: place for place, name in enumerate(graph.outputs)}
        numbers = {node.id: place for place, node in enumerate(graph.nodes)}
        edges = sorted(graph.edges, key=lambda edge: -edge.weight)[:EDGES]
        return GraphAnswer(
            name=self.name,
            others=self.others,
            about=graph.about,
            title=graph.title,
            model=graph.model,
            outputs=graph.outputs,
            images=len(graph.images),
            examples=[
                ImagePart(number=place, name=name)
                for place, name in enumerate(graph.images[:EXAMPLES])
                if name in graph.pictures
            ],
            images_of=[len(graph.images_of.get(name, [])) for name in graph.outputs],
            path=graph.path,
            target=graph.target,
            rows=graph.rows,
            completeness=graph.completeness,
            nodes=[
                NodePart(
                    id=node.id,
                    kind=node.kind,
                    row=len(graph.rows) if node.layer is None else rows[node.layer],
                    name=node.name,
                    contributions=[_short(node.contributions.get(name, 0.0)) for name in outputs],
                    shares=[_short(node.shares.get(name, 0.0)) for name in outputs],
                    top_of=[outputs[name] for name in node.top_of],
                    shared=node.shared,
                    active=node.active,
                    crops=len(node.crops) if node.sheet else 0,
                )
                for node in graph.nodes
            ],
            edges=EdgeColumns(
                source=[numbers[edge.source] for edge in edges],
                target=[numbers[edge.target] for edge in edges],
                value=[_short(edge.value) for edge in edges],
                weight=[_short(edge.weight) for edge in edges],
                all=len(graph.edges),
            ),
        )

    def node(self, number: int) -> NodeAnswer:
        """The sheet of a node."""
        node = self.graph.nodes[self._check(number, len(self.graph.nodes), "node")]
        images = {name: place for place, name in enumerate(self.graph.images) if name in self.graph.pictures}
        return NodeAnswer(
            number=number,
            id=node.id,
            samples=node.samples,
            active_of=[node.active_of.get(name, 0) for name in self.graph.outputs] if node.active_of else None,
            crops=node.crops,
            sheet=node.sheet is not None,
            places=[SeenPlace(**place.model_dump(), picture=images.get(place.image)) for place in node.places],
        )

    def sheet(self, number: int) -> str:
        """The name of a node's sheet in the folder."""
        return sheet_file(self.graph.nodes[self._check(number, len(self.graph.nodes), "node")].id)

    def image(self, number: int) -> str:
        """The name of an image's picture in the folder."""
        return image_file(self.graph.images[self._check(number, len(self.graph.images), "image")])

    @staticmethod
    def _check(number: int, count: int, what: str) -> int:
        if number >= count:
            raise not_found(f"There are {count} {what}s, from 0; {number} is none of them.")
        return number


class Graphs:
    """Graphs that were asked for. Safe to use from several threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Path, OpenGraph] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, entry: RunEntry, name: GraphName) -> OpenGraph:
        """A graph of a folder, or the problem: it has none, or it is damaged."""
        path = self._file(entry, name)
        status = path.stat()
        stamp = (status.st_mtime_ns, status.st_size)
        others = [each for each in get_args(GraphName) if entry.file(FILES[each])]
        annotations = entry.file(ANNOTATIONS)
        named = annotations.stat().st_mtime_ns if annotations else 0
        with self._lock:
            known = self._kept.get(path)
            if known is not None and (known.stamp, known.others, known.named) == (stamp, others, named):
                self._kept.move_to_end(path)
                return known
        graph = with_names(_read(path, f"{entry.shown}/{FILES[name]}"), read_annotations(entry.path)["node"])
        opened = OpenGraph(name, graph, stamp, others, named)
        with self._lock:
            self._kept[path] = opened
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return opened

    def raw(self, entry: RunEntry, name: GraphName) -> bytes:
        """The file as it was written."""
        self.open(entry, name)
        return read_checked(self._file(entry, name), BYTES)

    def _file(self, entry: RunEntry, name: GraphName) -> Path:
        path = entry.file(FILES[name])
        if path is not None:
            return path
        if kind_of(read_json(entry.path / MARK), entry.shown) != "decomposition":
            raise missing(
                f"{entry.shown}: expected a decomposed network. `conceptlens decompose MODEL IMAGES` makes one; MODEL "
                "may also be a run, whose image encoder is then decomposed."
            )
        if name in ("noise", "attack"):
            raise missing(f"{entry.shown}: it was drawn without --{name}. Decompose again with it.")
        raise missing(f"{entry.shown}: this graph is not drawn yet.", entry.command("resume"))


def picture(entry: RunEntry, name: str) -> bytes:
    """A picture of the folder, by the name that was made for it."""
    path = entry.file(name)
    if path is None:
        raise missing(f"{entry.shown}: this picture is not there.", entry.command("resume"))
    return read_checked(path)


def _short(value: float) -> float:
    """Six digits: a graph of thousands of edges is small enough to be sent."""
    return float(f"{value:.6g}")


def _read(path: Path, shown: str) -> Graph:
    """A graph whose nodes and edges fit together."""
    try:
        tree = upgrade(parse_json(read_checked(path, BYTES)), where=shown, writer=lambda: writer_of(path))
        if isinstance(tree, dict):
            tree.pop("schema", None)
        graph = Graph.model_validate(tree)
    except RecursionError:
        raise UserError(f"{shown}: nested too deep; not a graph that can be shown. {Graph.remedy}") from None
    except (UnicodeError, json.JSONDecodeError) as error:
        raise UserError(f"{shown}: expected JSON, but {error}. {Graph.remedy}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UserError(f"{shown}: {place}: {first['msg']}. {Graph.remedy}") from None
    ids = [node.id for node in graph.nodes]
    known = set(ids)
    layers = {row.layer for row in graph.rows}
    fine = (
        len(known) == len(ids)
        and all(edge.source in known and edge.target in known for edge in graph.edges)
        and all(node.layer in layers if node.kind != "output" else node.layer is None for node in graph.nodes)
        and all(set(node.top_of) <= set(graph.outputs) for node in graph.nodes)
    )
    if not fine:
        raise UserError(f"{shown}: its nodes and edges do not fit together. {Graph.remedy}")
    return graph
