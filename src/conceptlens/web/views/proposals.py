"""Names for a concept of a graph, from the texts nearest to its pictures.

The built-in image tower reads the crops of the concept's sheet, the built-in text tower reads candidate texts, and
their vectors are compared. A concept that lies near many texts alike says little: a text's mean similarity to the other
concepts' pictures is taken off, so that what is peculiar to this one comes first.
"""

from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt
import torch

from conceptlens.concepts import ConceptSet, library
from conceptlens.data.images.read import open_image, resize_square
from conceptlens.encoders import BUILTIN, TEXT, make_encoder, make_text_encoder
from conceptlens.encoders.contract import Encoder
from conceptlens.recipes.schema import EncoderConfig
from conceptlens.reports.material import value_of
from conceptlens.runs.folder import RunFolder
from conceptlens.web.schemas.annotations import Proposal
from conceptlens.web.server.folders import RunEntry
from conceptlens.web.server.problems import missing
from conceptlens.web.views.graphs import OpenGraph, picture

SHOWN = 6
KEPT = 2000  # pictures whose similarities are kept: some 3 MB
OTHERS = 24  # concepts whose pictures say what is usual
Floats = npt.NDArray[np.float32]


@cache
def _texts() -> tuple[tuple[str, ...], Floats]:
    """Candidate names, from the ready concept files, and their unit vectors (T, D)."""
    words = tuple(dict.fromkeys(text for name in library() for text in _texts_of(name)))
    return words, _unit(make_text_encoder(TEXT).embed(list(words)).float().numpy())


@cache
def _texts_of(name: str) -> tuple[str, ...]:
    """The texts of one concept file that may be names."""
    return tuple(each.text for each in ConceptSet.load(name).concepts if each.value not in ("yes", "no"))


@cache
def _encoder() -> Encoder:
    encoder = make_encoder(EncoderConfig(name=BUILTIN))
    encoder.eval().requires_grad_(False)
    return encoder


def proposals(entry: RunEntry, graph: OpenGraph, number: int) -> list[Proposal]:
    """Texts for one concept of a graph, nearest first; where there is a concept file for the data, only its texts."""
    own = _similarities(entry, graph, number)
    if own is None:
        raise missing("This concept has no pictures from which a name could be proposed.")
    nodes = [place for place, node in enumerate(graph.graph.nodes) if node.kind == "concept" and place != number]
    step = max(1, len(nodes) // OTHERS)
    usual = [found for place in nodes[::step][:OTHERS] if (found := _similarities(entry, graph, place)) is not None]
    scores = own - np.mean(usual, axis=0) if usual else own
    data = value_of(RunFolder(entry.path).info, "data.name")
    fitting = set(_texts_of(data)) if data in library() else set(_texts()[0])
    order = [place for place in np.argsort(-scores, kind="stable").tolist() if _texts()[0][place] in fitting]
    return [Proposal(text=_texts()[0][place], similarity=round(float(own[place]), 3)) for place in order[:SHOWN]]


def _similarities(entry: RunEntry, graph: OpenGraph, number: int) -> Floats | None:
    """Cosines (T,) of the mean of a concept's crops with all texts; None without pictures."""
    if not graph.graph.nodes[number].sheet:
        return None
    name = graph.sheet(number)
    path = entry.file(name)
    return _similarities_of(entry, name, path.stat().st_mtime_ns if path else 0)


@lru_cache(KEPT)
@torch.inference_mode()
def _similarities_of(entry: RunEntry, name: str, written: int) -> Floats:
    """Of the crops of one picture, kept until it is written anew: each concept is compared with the same others."""
    whole = open_image(picture(entry, name), name=f"{entry.shown}/{name}")
    side = whole.height
    crops = [whole.crop((left, 0, left + side, side)) for left in range(0, whole.width - side + 1, side)]
    encoder = _encoder()
    pixels = np.stack([resize_square(crop, encoder.image_size) for crop in crops])
    vectors = encoder.embed(encoder(torch.from_numpy(pixels))).float().numpy()
    return np.asarray(_texts()[1] @ _unit(_unit(vectors).mean(0, keepdims=True))[0], np.float32)


def _unit(vectors: npt.NDArray[np.float32]) -> Floats:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12), np.float32)
