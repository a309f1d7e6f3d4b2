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


def suspects(table: ImageTable, classes: list[str], concepts: ConceptSet, most: int) -> list[Suspect]:
    """The likeliest label errors of classes and of concepts."""
    ranked: list[Suspect] = []
    single = table.labels.ndim == 1
    if table.probs is not None and single:
        ranked += disagreements(table.probs, table.labels, CLASS, classes)
    if table.concept_probs is not None:
        for group in concepts.groups:
            if group.kind == "exclusive" and len(group.values) > 1:
                part = table.concept_labels[:, group.concepts]
                labels = np.where((part == 1).sum(1) == 1, part.argmax(1), -1)
                ranked += disagreements(table.concept_probs[:, group.concepts], labels, group.name, list(group.values))
            elif group.kind == "independent":
                for place in range(group.concepts.start, group.concepts.stop):
                    held = table.concept_probs[:, place]
                    labels = table.concept_labels[:, place].astype(np.int64)
                    name = concepts.names[place]
                    ranked += disagreements(np.stack([1 - held, held], axis=1), labels, name, ["no", "yes"])
    if table.vectors is not None and single and len(table) <= COMPARED:
        ranked += duplicates(table.vectors, table.labels, classes)
    return sorted(ranked, key=lambda each: (-each.score, each.row, each.of))[:most]


def disagreements(probs: Floats, labels: npt.NDArray[np.int64], of: str, names: list[str]) -> list[Suspect]:
    """Images (N,) whose likeliest label is another than theirs, and as likely as it is where it is the label."""
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


def duplicates(vectors: npt.NDArray[np.float32], labels: npt.NDArray[np.int64], classes: list[str]) -> list[Suspect]:
    """Images with a near-duplicate of another class; each pair once, named by its first image."""
    centered = np.nan_to_num(vectors - np.nanmean(vectors, axis=0))
    unit = centered / np.maximum(np.linalg.norm(centered, axis=1, keepdims=True), 1e-12)
    pairs: list[Suspect] = []
    for start in range(0, len(unit), BLOCK):
        close = unit[start : start + BLOCK] @ unit.T
        for place, other in zip(*np.nonzero(close >= SAME), strict=True):
            row = start + int(place)
            if row < other and min(labels[row], labels[other]) >= 0 and labels[row] != labels[other]:
                names = classes[labels[row]], classes[labels[other]]
                pairs.append(Suspect(row, CLASS, *names, float(close[place, other]), "duplicate", int(other)))
    return pairs
