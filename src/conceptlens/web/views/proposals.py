"""Names for a concept of a graph, from the texts nearest to its pictures.

The built-in image tower reads the crops of the concept's sheet, the built-in text tower reads candidate texts, and
their vectors are compared. A concept that lies near many texts alike says little: a text's mean similarity to the other
concepts' pictures is taken off, so that what is peculiar to this one comes first.
"""

from functools import cache

import numpy as np
import numpy.typing as npt
import torch

from conceptlens.concepts import ConceptSet, library
from conceptlens.data.images.read import open_image, resize_square
from conceptlens.encoders import BUILTIN, TEXT, make_encoder, make_text_encoder
from conceptlens.encoders.contract import Encoder
from conceptlens.recipes.schema import EncoderConfig
from conceptlens.web.schemas.annotations import Proposal
from conceptlens.web.server.folders import RunEntry
from conceptlens.web.server.problems import missing
from conceptlens.web.views.graphs import OpenGraph, picture

SHOWN = 6
OTHERS = 24  # concepts whose pictures say what is usual
Floats = npt.NDArray[np.float32]


@cache
def _texts() -> tuple[tuple[str, ...], Floats]:
    """Candidate names, from the ready concept files, and their unit vectors (T, D)."""
    words: dict[str, str] = {}
    for name in library():
        concepts = ConceptSet.load(name)
        words |= {concept.text: concept.text for concept in concepts.concepts if concept.value not in ("yes", "no")}
    return tuple(words), _unit(make_text_encoder(TEXT).embed(list(words.values())).float().numpy())


@cache
def _encoder() -> Encoder:
    encoder = make_encoder(EncoderConfig(name=BUILTIN))
    encoder.eval().requires_grad_(False)
    return encoder


def proposals(entry: RunEntry, graph: OpenGraph, number: int) -> list[Proposal]:
    """Texts for one concept of a graph, nearest first."""
    own = _similarities(entry, graph, number)
    if own is None:
        raise missing("This concept has no pictures from which a name could be proposed.")
    nodes = [place for place, node in enumerate(graph.graph.nodes) if node.kind == "concept" and place != number]
    step = max(1, len(nodes) // OTHERS)
    usual = [found for place in nodes[::step][:OTHERS] if (found := _similarities(entry, graph, place)) is not None]
    scores = own - np.mean(usual, axis=0) if usual else own
    order = np.argsort(-scores, kind="stable")[:SHOWN]
    return [Proposal(text=_texts()[0][place], similarity=round(float(own[place]), 3)) for place in order]


@torch.inference_mode()
def _similarities(entry: RunEntry, graph: OpenGraph, number: int) -> Floats | None:
    """Cosines (T,) of the mean of a concept's crops with all texts; None without pictures."""
    if not graph.graph.nodes[number].sheet:
        return None
    name = graph.sheet(number)
    whole = open_image(picture(entry, name), name=f"{entry.shown}/{name}")
    side = whole.height
    crops = [whole.crop((left, 0, left + side, side)) for left in range(0, whole.width - side + 1, side)]
    encoder = _encoder()
    pixels = np.stack([resize_square(crop, encoder.image_size) for crop in crops])
    vectors = encoder.embed(encoder(torch.from_numpy(pixels))).float().numpy()
    return np.asarray(_texts()[1] @ _unit(_unit(vectors).mean(0, keepdims=True))[0], np.float32)


def _unit(vectors: npt.NDArray[np.float32]) -> Floats:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12), np.float32)
