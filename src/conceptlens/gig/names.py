"""Names of concepts: by hand, or the texts nearest to their pictures. They are annotations of the run's nodes.

Concepts are found without labels and have numbers. A vision-language encoder compares the pictures that show a concept
with a list of texts: the mean of the pictures' vectors, less the mean over all concepts of the run, so that a text that
fits every picture names none. The name is a guess of that encoder, and says so (`named_by`). Graph files keep their
numbers: readers lay `annotations.jsonl` over them, so that a name given on the page or by a command is the same thing.
"""

from collections import defaultdict
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
from conceptlens.core.files import read_checked, read_text
from conceptlens.data.images.read import open_image
from conceptlens.gig.document import Graph, NamedBy, Node
from conceptlens.gig.pages.pictures import CROP, sheet_file
from conceptlens.runs.annotations import Annotation, annotate, read_annotations

GRAPHS = "graph*.json"
TEXTS, COMMAND = "nearest text", "command line"  # who gave a name, where no person did on the page


@dataclass(frozen=True, repr=False)
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


def with_names(graph: Graph, said: Mapping[str, Annotation]) -> Graph:
    """The same graph, its concepts called as people call them; the group that they gave stands before the name."""

    def named(node: Node) -> Node:
        known = said.get(node.id) if node.kind == "concept" else None
        if known is None or not (known.name or known.group):
            return node
        by: NamedBy = "texts" if known.author == TEXTS else "hand"
        return node.model_copy(
            update={"name": ": ".join(filter(None, (known.group, known.name or node.name))), "named_by": by}
        )

    return graph.model_copy(update={"nodes": [named(node) for node in graph.nodes]})


def write_names(run: Path, names: Mapping[str, tuple[str, NamedBy]]) -> int:
    """Add names to the run's annotations; returns how many concepts have one now."""
    known = {node.id for path in run.glob(GRAPHS) for node in Graph.read(path).nodes if node.kind == "concept"}
    for node in names:
        if node not in known:
            raise unknown_name("concept", node, sorted(known))
    alike: dict[tuple[str, NamedBy], list[str]] = defaultdict(list)
    for node, name_and_by in names.items():
        alike[name_and_by].append(node)
    for (name, by), nodes in alike.items():
        annotate(run, "node", nodes, author=TEXTS if by == "texts" else COMMAND, name=name)
    return sum(bool(row.name) for row in read_annotations(run)["node"].values())


def names_of_file(path: Path) -> dict[str, tuple[str, NamedBy]]:
    """`LAYER/NUMBER,NAME` a line."""
    try:
        lines = [line.strip() for line in read_text(path).splitlines() if line.strip()]
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
    file = run / sheet_file(node.id)
    sheet = open_image(read_checked(file), name=str(file))
    crops = [sheet.crop((left, 0, left + CROP, CROP)) for left in range(0, sheet.width, CROP)]
    size = int(encoder.image_size)  # type: ignore[arg-type]
    pixels = torch.stack(
        [torch.from_numpy(np.array(crop.resize((size, size), Image.Resampling.BICUBIC))) for crop in crops]
    )
    mean: torch.Tensor = encoder.embed(encoder(pixels.permute(0, 3, 1, 2))).mean(0)  # type: ignore[operator]
    return mean
