"""Concept vectors as PCBM learns them: the normal of a linear SVM between images with and without the concept.

Post-hoc Concept Bottleneck Models (Yuksekgonul, Wang, Zou; ICLR 2023), section 2.1; the vectors are those of TCAV.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

from conceptlens.concepts import UNKNOWN
from conceptlens.methods.fitted.data import FitImages


@dataclass(frozen=True)
class ConceptVector:
    """A hyperplane c · x + b = 0 between images with and without a concept."""

    vector: npt.NDArray[np.float64]  # c, (D,)
    intercept: float  # b
    c: float  # the SVM's C that was chosen
    auc: float | None  # on validation, where both sides are there


def concept_vector(
    concept: int, train: FitImages, val: FitImages, *, c: Sequence[float], samples: int, seed: int
) -> ConceptVector | str:
    """The SVM of one concept, or why there can be none.

    Args:
        concept: Its position.
        train: Images to separate; those whose label is unknown are left out.
        val: Images whose AUC chooses C; the first C is taken where they cannot.
        c: Values of C, smaller is smoother.
        samples: At most so many images with the concept, and so many without; 0: all.
        seed: Of the images drawn.
    """
    chance = np.random.default_rng([seed, 11, concept])
    weight = np.ones(len(train)) if train.certainty is None else train.certainty[:, concept]
    sides = [np.flatnonzero((train.concepts[:, concept] == truth) & (weight > 0)) for truth in (0, 1)]
    for side, words in zip(sides, ("without", "with"), strict=True):
        if not len(side):
            return f"no training image is labeled as being {words} it"
    drawn = np.sort(np.concatenate([chance.permutation(side)[: samples or None] for side in sides]))
    x, y, w = train.vectors[drawn].astype(np.float64), train.concepts[drawn, concept], weight[drawn]
    mean = x.mean(0)  # the solver penalizes the intercept, which is small for centered vectors wherever they lay before
    known = np.flatnonzero(val.concepts[:, concept] != UNKNOWN)
    held = val.vectors[known] - mean, val.concepts[known, concept]
    judged = len(np.unique(held[1])) == 2
    best: ConceptVector | None = None
    for value in c if judged else c[:1]:
        svm = _svm(x - mean, y, w, value)
        auc = float(roc_auc_score(held[1], svm.decision_function(held[0]))) if judged else None
        if best is None or (auc is not None and best.auc is not None and auc > best.auc):
            best = ConceptVector(svm.coef_[0], float(svm.intercept_[0] - svm.coef_[0] @ mean), value, auc)
    assert best is not None  # there is at least one C
    return best


def _svm(x: npt.NDArray[np.float64], y: npt.NDArray[np.int8], weight: npt.NDArray[np.float64], c: float) -> LinearSVC:
    """Squared hinge in the primal: deterministic, and fast where there are more images than channels."""
    svm = LinearSVC(C=c, dual=False, class_weight="balanced", max_iter=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # validation judges what came out
        svm.fit(x, y, sample_weight=weight)
    return svm
