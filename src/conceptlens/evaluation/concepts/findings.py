"""Concepts, audited by the predictions that a run keeps: for every method, with a codebook or without.

*Never predicted*: the model hardly ever predicts the concept, though it is present now and then. *At chance*: its AUC
is not significantly above 0.5. *No influence*: it hardly changes the class logits. *Duplicate*: its scores correlate
almost perfectly with those of another concept. *Empty slot*: its slot gets hardly any patch.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.evaluation.codebook.document import ConceptFinding
from conceptlens.evaluation.concepts.concepts import concept_metrics
from conceptlens.evaluation.concepts.groups import group_scores
from conceptlens.runs.predictions import StoredPredictions
from conceptlens.stats.bootstrap import bootstrap_intervals
from conceptlens.stats.weighted import weighted_auc

Floats = npt.NDArray[np.float64]
RARELY = 0.1  # of how often it holds
HOLDS = 0.02  # of images, at least, for `never predicted` to be reported
NO_INFLUENCE = 0.1  # of an even share of influence
DUPLICATE = 0.98
EMPTY = 0.01  # of an even share of patches
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
    predicted, sure = (
        _predicted(logits, labels, concepts),
        _read_better_than_chance(logits, labels, concepts, stored.units),
    )
    closest, correlation = _closest(logits)
    weight = None if influence is None or not influence.sum() > 0 else influence / influence.mean()
    found = []
    for k, (concept, row) in enumerate(zip(concepts.concepts, rows, strict=True)):
        known = labels[:, k] != UNKNOWN
        holds = float((labels[known, k] == 1).mean()) if known.any() else None
        mass = None if slot_mass is None else float(slot_mass[k])
        kinds: list[Literal["never predicted", "at chance", "no influence", "duplicate", "empty slot"]] = []
        if holds is not None and holds >= HOLDS and predicted[k] < RARELY * holds:
            kinds.append("never predicted")
        if sure[k] is False:
            kinds.append("at chance")
        if weight is not None and weight[k] < NO_INFLUENCE:
            kinds.append("no influence")
        if closest[k] >= 0 and correlation[k] >= DUPLICATE:
            kinds.append("duplicate")
        if mass is not None and mass < EMPTY:
            kinds.append("empty slot")
        found.append(
            ConceptFinding(
                concept=concept.name,
                text=concept.text,
                labeled=int(known.sum()),
                holds=holds,
                predicted=float(predicted[k]),
                auc=row["auc"],
                auc_within_class=row["auc_within_class"],
                influence=None if weight is None else float(weight[k]),
                closest=concepts.names[closest[k]] if closest[k] >= 0 else None,
                closest_correlation=float(correlation[k]) if closest[k] >= 0 else None,
                slot_mass=mass,
                kinds=kinds,
            )
        )
    return found


def _predicted(logits: Floats, labels: npt.NDArray[np.int8], concepts: ConceptSet) -> Floats:
    """Share of images (K,) in which each concept is predicted."""
    predicted = np.zeros(len(concepts))
    for scored in group_scores(logits, labels, concepts):
        for answer, column in zip(scored.answers, scored.columns, strict=True):
            predicted[column] = (scored.predicted == answer).mean() if len(logits) else 0.0
    return predicted


def _read_better_than_chance(
    logits: Floats, labels: npt.NDArray[np.int8], concepts: ConceptSet, units: Sequence[str]
) -> list[bool | None]:
    """Whether the interval of each concept's AUC lies above ½; None where it has none."""
    statistics = {}
    for scored in group_scores(logits, labels, concepts):
        for answer, column in zip(scored.answers, scored.columns, strict=True):
            scores, positive, known = scored.log_odds(answer), scored.truth == answer, scored.known
            if (positive & known).any() and (~positive & known).any():
                statistics[str(column)] = _auc(scores, positive, known)
    found = bootstrap_intervals(statistics, len(logits), units, resamples=RESAMPLES)
    low = {name: None if interval is None else interval[0] for name, interval in found.items()}
    bounds = [low.get(str(k)) for k in range(len(concepts))]
    return [None if bound is None else bound > 0.5 for bound in bounds]


def _auc(scores: Floats, positive: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_]):  # type: ignore[no-untyped-def]
    return lambda weights: weighted_auc(scores, positive, weights, known)


def _closest(logits: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """For each concept (K,) the one whose scores correlate most with its own, and how much; −1 for none."""
    count = logits.shape[1]
    spread = logits.std(0)
    if count < 2 or len(logits) < 3:
        return np.full(count, -1, dtype=np.int64), np.zeros(count)
    scaled = (logits - logits.mean(0)) / np.where(spread > 1e-12, spread, np.inf)
    table = scaled.T @ scaled / len(logits)
    np.fill_diagonal(table, -np.inf)
    return np.where(spread > 1e-12, table.argmax(1), -1), table.max(1)
