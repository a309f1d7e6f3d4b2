"""What a run got right of each image, how sure it was, and of which class the image is: all that groups are judged by.

From the predictions that a run keeps, so that methods without concepts are judged too.
"""

from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.evaluation.concepts.groups import GroupScores, group_scores
from conceptlens.nn.heads.probabilities import class_probabilities
from conceptlens.runs.predictions import StoredPredictions
from conceptlens.stats.weighted import mean_known

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
ACCURACY, CONCEPTS = "class accuracy", "concept accuracy"
GAP, CONCEPT_GAP = "class overconfidence", "concept overconfidence"
MEASURES = (ACCURACY, CONCEPTS, GAP, CONCEPT_GAP)


@dataclass(frozen=True)
class Outcomes:
    """N images; NaN where nobody knows the truth."""

    ids: tuple[str, ...]
    units: tuple[str, ...]  # what belongs together: a patient, a lesion, or the image itself
    classes: Indices  # (N,): a number for each class, or combination of labels; −1 unknown
    hit: Floats  # (N,): 1 right, 0 wrong; of several labels the share right
    confidence: Floats  # (N,): of that answer
    concept_hit: Floats  # (N,): share of the concept groups that are read rightly
    concept_confidence: Floats  # (N,)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def columns(self) -> dict[str, Floats]:
        """The measures (N,), each a mean over images; overconfidence is confidence less accuracy."""
        return {
            ACCURACY: self.hit,
            CONCEPTS: self.concept_hit,
            GAP: self.confidence - self.hit,
            CONCEPT_GAP: self.concept_confidence - self.concept_hit,
        }


def outcomes(stored: StoredPredictions, concepts: ConceptSet) -> Outcomes:
    """The outcomes of a split."""
    probabilities, labels = class_probabilities(stored.logits, stored.task), stored.labels
    if stored.task == "multilabel":
        known = labels != UNKNOWN
        said = probabilities >= np.asarray(stored.thresholds)
        hit = mean_known(np.where(known, said == (labels == 1), np.nan))
        confidence = mean_known(np.where(known, np.where(said, probabilities, 1 - probabilities), np.nan))
        classes = np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    else:
        known = labels >= 0
        hit = np.where(known, probabilities.argmax(1) == labels, np.nan)
        confidence, classes = probabilities.max(1, initial=0.0), labels
    concept_hit, concept_confidence = _of_concepts(stored, concepts)
    return Outcomes(stored.ids, stored.units, classes, hit, confidence, concept_hit, concept_confidence)


def _of_concepts(stored: StoredPredictions, concepts: ConceptSet) -> tuple[Floats, Floats]:
    """Means (N,) over the groups that are known in an image, of hits and of confidence."""
    nothing = np.full(len(stored.ids), np.nan)
    if not stored.concept_logits.shape[1]:
        return nothing, nothing
    parts: list[tuple[Floats, Floats]] = []
    for _, members in groupby(
        group_scores(stored.concept_logits, stored.concepts, concepts), key=lambda scored: scored.group
    ):
        asked = list(members)
        hit = [np.where(scored.known, scored.predicted == scored.truth, np.nan) for scored in asked]
        sure = [np.where(scored.known, _confidence(scored), np.nan) for scored in asked]
        parts.append((mean_known(np.stack(hit, axis=1)), mean_known(np.stack(sure, axis=1))))
    hits, sures = (mean_known(np.stack(column, axis=1)) for column in zip(*parts, strict=True))
    return hits, sures


def _confidence(scored: GroupScores) -> Floats:
    return np.asarray(scored.probabilities.max(1, initial=0.0))
