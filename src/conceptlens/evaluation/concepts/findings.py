"""Concepts, audited by the predictions that a run keeps: for every method, with a codebook or without.

*Never said*: the model hardly ever says it, though it holds now and then. *Unread*: where it is said cannot be told
from chance. *Idle*: it hardly moves the class. *Double*: its score goes with another's almost exactly. *Unfed*: its
slot gets hardly any patch.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.evaluation.codebook.document import ConceptFinding
from conceptlens.evaluation.concepts.concepts import concept_metrics
from conceptlens.evaluation.concepts.groups import axes
from conceptlens.runs.predictions import StoredPredictions
from conceptlens.stats.bootstrap import bootstrap_intervals
from conceptlens.stats.weighted import weighted_auc

Floats = npt.NDArray[np.float64]
SELDOM = 0.1  # of how often it holds
HOLDS = 0.02  # of images, at least, for its silence to be noticed
IDLE = 0.1  # of an even share of influence
DOUBLE = 0.98
UNFED = 0.01  # of an even share of patches
RESAMPLES = 200


def concept_findings(
    stored: StoredPredictions,
    concepts: ConceptSet,
    *,
    influence: Floats | None = None,
    slot_mass: Sequence[float] | None = None,
) -> list[ConceptFinding]:
    """One entry a concept.

    Args:
        stored: Predictions of N images.
        concepts: The vocabulary.
        influence: (K,) mean absolute effect on the class logits.
        slot_mass: (K,) share of patches of the slot that each concept reads, over an even share.
    """
    logits, labels = stored.concept_logits.astype(np.float64), stored.concepts
    if not logits.shape[1]:
        return []
    rows = concept_metrics(logits, labels, concepts, class_labels=stored.labels)["per_concept"]
    said, sure = _said(logits, labels, concepts), _read_better_than_chance(logits, labels, concepts, stored.units)
    twins, correlation = _twins(logits)
    weight = None if influence is None or not influence.sum() > 0 else influence / influence.mean()
    found = []
    for k, (concept, row) in enumerate(zip(concepts.concepts, rows, strict=True)):
        known = labels[:, k] != UNKNOWN
        holds = float((labels[known, k] == 1).mean()) if known.any() else None
        mass = None if slot_mass is None else float(slot_mass[k])
        kinds: list[Literal["never said", "unread", "idle", "double", "unfed"]] = []
        if holds is not None and holds >= HOLDS and said[k] < SELDOM * holds:
            kinds.append("never said")
        if sure[k] is False:
            kinds.append("unread")
        if weight is not None and weight[k] < IDLE:
            kinds.append("idle")
        if twins[k] >= 0 and correlation[k] >= DOUBLE:
            kinds.append("double")
        if mass is not None and mass < UNFED:
            kinds.append("unfed")
        found.append(
            ConceptFinding(
                concept=concept.name,
                text=concept.text,
                labeled=int(known.sum()),
                holds=holds,
                said=float(said[k]),
                auc=row["auc"],
                auc_within_class=row["auc_within_class"],
                influence=None if weight is None else float(weight[k]),
                twin=concepts.names[twins[k]] if twins[k] >= 0 else None,
                twin_correlation=float(correlation[k]) if twins[k] >= 0 else None,
                slot_mass=mass,
                kinds=kinds,
            )
        )
    return found


def _said(logits: Floats, labels: npt.NDArray[np.int8], concepts: ConceptSet) -> Floats:
    """Share of images (K,) in which each concept is the answer."""
    said = np.zeros(len(concepts))
    for axis in axes(logits, labels, concepts):
        for answer, column in zip(axis.answers, axis.columns, strict=True):
            said[column] = (axis.predicted == answer).mean() if len(logits) else 0.0
    return said


def _read_better_than_chance(
    logits: Floats, labels: npt.NDArray[np.int8], concepts: ConceptSet, units: Sequence[str]
) -> list[bool | None]:
    """Whether the interval of each concept's AUC lies above ½; None where it has none."""
    statistics = {}
    for axis in axes(logits, labels, concepts):
        for answer, column in zip(axis.answers, axis.columns, strict=True):
            scores, positive, known = axis.log_odds(answer), axis.truth == answer, axis.known
            if (positive & known).any() and (~positive & known).any():
                statistics[str(column)] = _auc(scores, positive, known)
    found = bootstrap_intervals(statistics, len(logits), units, resamples=RESAMPLES)
    low = {name: None if interval is None else interval[0] for name, interval in found.items()}
    bounds = [low.get(str(k)) for k in range(len(concepts))]
    return [None if bound is None else bound > 0.5 for bound in bounds]


def _auc(scores: Floats, positive: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_]):  # type: ignore[no-untyped-def]
    return lambda weights: weighted_auc(scores, positive, weights, known)


def _twins(logits: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """For each concept (K,) the one whose scores correlate most with its own, and how much; −1 for none."""
    count = logits.shape[1]
    spread = logits.std(0)
    if count < 2 or len(logits) < 3:
        return np.full(count, -1, dtype=np.int64), np.zeros(count)
    scaled = (logits - logits.mean(0)) / np.where(spread > 1e-12, spread, np.inf)
    table = scaled.T @ scaled / len(logits)
    np.fill_diagonal(table, -np.inf)
    return np.where(spread > 1e-12, table.argmax(1), -1), table.max(1)
