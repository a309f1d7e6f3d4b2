"""Likely label errors of a split, most likely first.

Two signs. The model confidently disagrees: its class is one of which it is as sure as it is on average of images that
bear that label (confident learning; C. Northcutt, L. Jiang, I. Chuang, 2021). Or a near-duplicate bears another label.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.web.views.dataset.table import Floats, ImageTable

CLASS = "class"
SAME = 0.98  # cosine of centered token vectors from which on two images count as near-duplicates
BLOCK = 1024  # rows compared at once
COMPARED = 20_000  # images among which near-duplicates are looked for, at most


@dataclass(frozen=True)
class Suspect:
    """A label that is likely wrong."""

    row: int
    of: str  # "class", an exclusive concept group, or a concept of an independent one
    label: str
    instead: str
    score: float  # how much more probable the other label is; of duplicates their cosine
    why: str  # disagreement or duplicate
    other: int | None = None  # the near-duplicate


@dataclass(frozen=True)
class Labeling:
    """The labels of all images to one question."""

    of: str
    names: list[str]
    labels: npt.NDArray[np.int64]  # (N,) places among the names; −1 where unknown
    probs: Floats | None  # (N, names)


def suspects(table: ImageTable, classes: list[str], concepts: ConceptSet, most: int) -> list[Suspect]:
    """The likeliest label errors of classes and of concepts."""
    asked = labelings(table, classes, concepts)
    ranked = [found for each in asked if each.probs is not None for found in disagreements(each)]
    if table.vectors is not None and len(table) <= COMPARED:
        ranked += duplicates(table.vectors, asked, most)
    return sorted(ranked, key=lambda each: (-each.score, each.row, each.of))[:most]


def labelings(table: ImageTable, classes: list[str], concepts: ConceptSet) -> list[Labeling]:
    """The class, where an image has one; each exclusive group; each concept of the others."""
    found = [Labeling(CLASS, classes, table.labels, table.probs)] if table.labels.ndim == 1 else []
    for group in concepts.groups:
        if group.kind == "exclusive" and len(group.values) > 1:
            part = table.concept_labels[:, group.concepts]
            labels = np.where((part == 1).sum(1) == 1, part.argmax(1), -1)
            probs = None if table.concept_probs is None else table.concept_probs[:, group.concepts]
            found.append(Labeling(group.name, list(group.values), labels, probs))
        elif group.kind == "independent":
            for place in range(group.concepts.start, group.concepts.stop):
                held = None if table.concept_probs is None else table.concept_probs[:, place]
                probs = None if held is None else np.stack([1 - held, held], axis=1)
                labels = table.concept_labels[:, place].astype(np.int64)
                found.append(Labeling(concepts.names[place], ["no", "yes"], labels, probs))
    return found


def disagreements(asked: Labeling) -> list[Suspect]:
    """Images (N,) whose likeliest label is another than theirs, and as likely as it is where it is the label."""
    of, names, labels, probs = asked.of, asked.names, asked.labels, asked.probs
    assert probs is not None
    guess, rows = probs.argmax(1), np.arange(len(labels))
    known = labels >= 0
    usual = np.array([probs[known & (labels == k), k].mean() if (known & (labels == k)).any() else 1.0
                      for k in range(len(names))])  # fmt: skip
    sure = known & (guess != labels) & (probs[rows, guess] >= usual[guess])
    gain = probs[rows, guess] - probs[rows, np.maximum(labels, 0)]
    return [
        Suspect(row, of, names[labels[row]], names[guess[row]], float(gain[row]), "disagreement")
        for row in np.flatnonzero(sure).tolist()
    ]


def duplicates(vectors: npt.NDArray[np.float32], asked: list[Labeling], most: int) -> list[Suspect]:
    """Images with a near-duplicate of another label; each pair once for a question, named by its first image.

    Where there are many, as of a split that holds one image again and again, those of the first images.
    """
    centered = np.nan_to_num(vectors - np.nanmean(vectors, axis=0))
    unit = centered / np.maximum(np.linalg.norm(centered, axis=1, keepdims=True), 1e-12)
    pairs: list[Suspect] = []
    for start in range(0, len(unit), BLOCK):
        close = unit[start : start + BLOCK] @ unit.T
        alike = np.triu(close >= SAME, start + 1)
        for each in asked:
            own, labels = each.labels[start : start + BLOCK, None], each.labels
            places, others = np.nonzero(alike & (own != labels) & (own >= 0) & (labels >= 0))
            for place, other in zip(places[:most].tolist(), others[:most].tolist(), strict=True):
                names = each.names[labels[start + place]], each.names[labels[other]]
                score = float(close[place, other])
                pairs.append(Suspect(start + place, each.of, *names, score, "duplicate", other))
        if len(pairs) >= most:
            break
    return pairs
