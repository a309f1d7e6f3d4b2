"""Which images to label next: those a model of the labels so far is least sure of, as different as possible.

Without labels, images that are far from each other come first (farthest-first, Gonzalez 1985); with labels, the same
among the most uncertain ones (margin sampling, Scheffer et al. 2001).
"""

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.workflows.authoring.images.probe import RIDGE

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int8]
POOL = 5  # times as many uncertain images are looked at as are wanted
LEAST = 10  # labeled images from which a model's doubt means something


def next_images(features: Floats, labels: Labels, concepts: ConceptSet, n: int) -> list[int]:
    """At most n images that lack a label of some group, the most useful first.

    Args:
        features: (N, D).
        labels: (N, K) of 0, 1, negative for unknown.
        concepts: K concepts in groups.
        n: How many.
    """
    complete = np.all([(labels[:, group.concepts] >= 0).all(1) for group in concepts.groups], axis=0)
    todo = np.flatnonzero(~complete)
    known = np.flatnonzero((labels >= 0).any(1))
    if len(known) >= LEAST and len(todo) > n:
        doubt = uncertainty(features, labels, concepts)[todo]
        todo = todo[np.argsort(-doubt, kind="stable")[: POOL * n]]
    scaled = (features - features.mean(0)) / (features.std(0) + 1e-9)
    return farthest_first(scaled, todo, known, n)


def uncertainty(features: Floats, labels: Labels, concepts: ConceptSet) -> Floats:
    """How unsure a ridge regression on the labels is of each image, (N,): minus the mean margin over groups."""
    mean = features.mean(0)
    centered = features - mean
    margins = []
    for group in concepts.groups:
        part = labels[:, group.concepts]
        known = (part >= 0).all(1)
        if known.sum() < LEAST:
            continue
        rows = centered[known]
        target = 2.0 * (part[known] == 1) - 1
        gram = rows.T @ rows + RIDGE * max(float((rows**2).mean()), 1e-12) * len(rows) * np.eye(rows.shape[1])
        scores = centered @ np.linalg.solve(gram, rows.T @ (target - target.mean(0))) + target.mean(0)
        if group.kind == "exclusive":
            ordered = np.sort(scores, axis=1)
            margins.append(ordered[:, -1] - ordered[:, -2])
        else:
            margins.append(np.abs(scores).mean(1))
    return -np.mean(margins, axis=0) if margins else np.zeros(len(features))


def farthest_first(
    points: Floats, candidates: npt.NDArray[np.int64], chosen: npt.NDArray[np.int64], n: int
) -> list[int]:
    """Candidates one by one, each the farthest from all that are chosen by then; the first is nearest to the middle."""
    near = np.full(len(candidates), np.inf)
    for index in chosen.tolist():
        near = np.minimum(near, ((points[candidates] - points[index]) ** 2).sum(1))
    picked: list[int] = []
    for _ in range(min(n, len(candidates))):
        if np.isinf(near).all():
            place = int(((points[candidates] - points.mean(0)) ** 2).sum(1).argmin())
        else:
            place = int(near.argmax())
        picked.append(int(candidates[place]))
        near = np.minimum(near, ((points[candidates] - points[candidates[place]]) ** 2).sum(1))
        near[place] = -1.0
    return picked
