"""Names of concepts: by hand, or the texts nearest to their pictures. `names.json` of a run keeps them.

Concepts are found without labels and have numbers. A vision-language encoder compares the pictures that show a concept
with a list of texts: the mean of the pictures' vectors, less the mean over all concepts of the run, so that a text that
fits every picture names none. The name is a guess of that encoder, and says so (`named_by`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn import functional as F

from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import read_json, write_json
from conceptlens.gig.document import Graph, NamedBy, Node
from conceptlens.gig.pages.pictures import CROP

FILE = "names.json"
GRAPHS = "graph*.json"


@dataclass(frozen=True)
class Named(ResultMixin):
    """Names that were given."""

    path: Path
    names: Mapping[str, tuple[str, NamedBy]]
    total: int  # named concepts of the run

    def text(self) -> str:
        lines = [f"{node}: {name}" for node, (name, _) in self.names.items()]
        return "\n".join([*lines, f"{self.total} concepts of {self.path} have names"])

    def to_dict(self) -> dict[str, Any]:
        return {"path": str(self.path), "names": {node: name for node, (name, _) in self.names.items()}}


def read_names(run: Path) -> dict[str, tuple[str, NamedBy]]:
    """Node → its name and who gave it; none where nobody has."""
    path = run / FILE
    return {node: (str(name), by) for node, (name, by) in read_json(path)["names"].items()} if path.is_file() else {}


def apply_names(graph: Graph, names: Mapping[str, tuple[str, NamedBy]]) -> Graph:
    """Write names into a graph's nodes."""
    for node in graph.nodes:
        if node.kind == "concept" and node.id in names:
            node.name, node.named_by = names[node.id]
    return graph


def write_names(run: Path, names: Mapping[str, tuple[str, NamedBy]]) -> int:
    """Keep names beside those that are there, write them into all graphs of the run; how many nodes have one now."""
    graphs = {path: Graph.read(path) for path in sorted(run.glob(GRAPHS))}
    known = {node.id for graph in graphs.values() for node in graph.nodes if node.kind == "concept"}
    for node in names:
        if node not in known:
            raise unknown_name("concept", node, sorted(known))
    every = read_names(run) | dict(names)
    write_json(run / FILE, {"names": {node: list(pair) for node, pair in every.items()}})
    for path, graph in graphs.items():
        apply_names(graph, every).write(path)
    return len(every)


def names_of_file(path: Path) -> dict[str, tuple[str, NamedBy]]:
    """`LAYER/NUMBER,NAME` a line."""
    try:
        lines = [line.strip() for line in path.read_text("utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: expected a text file with LAYER/NUMBER,NAME a line ({error}).") from None
    names: dict[str, tuple[str, NamedBy]] = {}
    for number, line in enumerate(lines, 1):
        node, comma, name = line.partition(",")
        if not comma or not name.strip():
            raise UserError(f"{path}, line {number}: expected LAYER/NUMBER,NAME, found {line!r}.")
        names[node.strip()] = (name.strip(), "hand")
    return names


@torch.no_grad()
def names_by_texts(run: Path, texts: Sequence[str], encoder_name: str) -> dict[str, tuple[str, NamedBy]]:
    """The text nearest to the pictures of each concept that a graph of the run shows."""
    from conceptlens.encoders import make_encoder, make_text_encoder
    from conceptlens.recipes.schema import EncoderConfig

    nodes = {node.id: node for path in run.glob(GRAPHS) for node in Graph.read(path).nodes if node.sheet}
    if not nodes:
        raise UserError(f"{run}: no graph with pictures of concepts; finish it with `conceptlens resume {run}`.")
    encoder = make_encoder(EncoderConfig(name=encoder_name)).eval()
    if encoder.text is None:
        raise UserError(f"{encoder_name} has no text tower of its own. Use builtin/vit or an open_clip/… encoder.")
    images = [_vector(run, node, encoder) for node in nodes.values()]
    vectors = torch.stack(images)
    words = make_text_encoder(encoder.text).embed(list(texts))
    score = F.normalize(vectors, dim=1) @ words.T
    if len(score) > 1:
        score = score - score.mean(0)
    return {node: (texts[int(best)], "texts") for node, best in zip(nodes, score.argmax(1), strict=True)}


def _vector(run: Path, node: Node, encoder: torch.nn.Module) -> torch.Tensor:
    """Mean vector of the pictures on a concept's sheet."""
    size = int(encoder.image_size)  # type: ignore[arg-type]
    with Image.open(run / str(node.sheet)) as sheet:
        crops = [sheet.crop((left, 0, left + CROP, CROP)).convert("RGB") for left in range(0, sheet.width, CROP)]
    pixels = torch.stack(
        [torch.from_numpy(np.array(crop.resize((size, size), Image.Resampling.BICUBIC))) for crop in crops]
    )
    mean: torch.Tensor = encoder.embed(encoder(pixels.permute(0, 3, 1, 2))).mean(0)  # type: ignore[operator]
    return mean
