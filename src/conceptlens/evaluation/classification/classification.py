"""How well classes are predicted: one class per image (`single`, `ordinal`) or several (`multilabel`).

Thresholds for sensitivity, specificity and predictive values are chosen on validation (`choose_thresholds`) and applied
as they are to the test (`class_metrics`): an operating point chosen on the test would flatter itself.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import cohen_kappa_score, confusion_matrix

from conceptlens.concepts import UNKNOWN
from conceptlens.core.errors import UserError
from conceptlens.data.dataset import UNLABELED, Task
from conceptlens.evaluation.calibration.ece import expected_calibration_error, top_label_error
from conceptlens.evaluation.classification.auc import auc
from conceptlens.evaluation.classification.balanced import balanced_accuracy, mean_of, recalls
from conceptlens.stats.finite import finite

Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


def _checked(probabilities: npt.ArrayLike) -> Floats:
    """Probabilities as float64; logits by mistake are refused rather than guessed."""
    values = finite(np.asarray(probabilities, dtype=np.float64), "class scores")
    if values.size and (values.min() < 0 or values.max() > 1):
        raise UserError("Class metrics need probabilities between 0 and 1; convert logits with `class_probabilities`.")
    return values


def choose_thresholds(probabilities: npt.ArrayLike, labels: npt.ArrayLike, task: Task) -> list[float]:
    """For each class against the rest, the threshold with the largest Youden's J (sensitivity + specificity − 1).

    Candidates lie midway between neighboring distinct probabilities, so the choice does not depend on one image's exact
    value. Ties go to the candidate nearest to 0.5, then to the lower (more sensitive) one. A class of which validation
    does not show both outcomes gets 0.5.

    Args:
        probabilities: (N, C) on validation.
        labels: (N,), or (N, C) for a multi-label task.
        task: The task.
    """
    values = _checked(probabilities)
    return [
        _youden(column[known], positive[known]) for column, positive, known in _one_against_rest(values, labels, task)
    ]


def _youden(scores: Floats, positive: npt.NDArray[np.bool_]) -> float:
    distinct = np.unique(scores)
    if len(distinct) < 2 or positive.all() or not positive.any():
        return 0.5
    candidates = (distinct[1:] + distinct[:-1]) / 2
    # Neighbors so close that their middle rounds to the lower one would put that one on the wrong side.
    candidates = np.maximum(candidates, np.nextafter(distinct[:-1], np.inf))
    above = np.searchsorted(np.sort(scores[positive]), candidates)
    below = np.searchsorted(np.sort(scores[~positive]), candidates)
    # J in whole pairs, so that ties are ties: J · P · N = (P − above) N + below P − P N.
    positives, negatives = int(positive.sum()), int((~positive).sum())
    youden = (positives - above) * negatives + below * positives
    best = candidates[youden == youden.max()]
    return float(best[np.argmin(np.abs(best - 0.5))])


def _one_against_rest(
    values: Floats, labels: npt.ArrayLike, task: Task
) -> list[tuple[Floats, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]:
    """For each class its probabilities, outcomes and which are known, (N,) each."""
    truth = np.asarray(labels, dtype=np.int64)
    if task == "multilabel":
        return [(values[:, c], truth[:, c] == 1, truth[:, c] != UNKNOWN) for c in range(values.shape[1])]
    return [(values[:, c], truth == c, truth != UNLABELED) for c in range(values.shape[1])]


def class_metrics(
    probabilities: npt.ArrayLike,
    labels: npt.ArrayLike,
    task: Task,
    thresholds: Sequence[float] | None = None,
    *,
    names: Sequence[str] | None = None,
    bins: int = 15,
) -> dict[str, Any]:
    """Everything said about the classes of a split; ready for JSON.

    Args:
        probabilities: (N, C), from `class_probabilities`.
        labels: (N,) class index or UNLABELED, whose images are left out; multi-label: (N, C) of 0, 1, UNKNOWN.
        task: The task.
        thresholds: One per class, from `choose_thresholds` on validation. Without them there are no sensitivity,
            specificity, PPV and NPV for one class per image; a multi-label task decides at 0.5.
        names: Of the classes, for `per_class`; their index if not given.
        bins: Of the calibration error (equal width).

    Returns:
        One class per image: `n`, `accuracy`, `balanced_accuracy` (BMAC: mean recall over the classes that occur),
        `top5` (with more than five classes), `macro_auc` (one against the rest, over classes with both outcomes), `ece`
        (top label), `quadratic_weighted_kappa` (ordinal), `confusion` (rows: truth), `per_class`.
        Multi-label: `n`, `accuracy` (mean over labels), `subset_accuracy` (over images with all labels known),
        `balanced_accuracy` and `f1_macro` (means over labels), `macro_auc`, `ece` (of all known yes/no answers),
        `per_class`.
    """
    values, truth = _checked(probabilities), np.asarray(labels, dtype=np.int64)
    expected = values.shape if task == "multilabel" else values.shape[:1]
    if values.ndim != 2 or truth.shape != expected:
        raise UserError(
            f"Class metrics of a {task} task need probabilities (N, C) and labels of shape {expected}; "
            f"the probabilities are {values.shape}, the labels {truth.shape}."
        )
    if thresholds is not None and len(thresholds) != values.shape[1]:
        raise UserError(f"Expected one threshold for each of {values.shape[1]} classes, found {len(thresholds)}.")
    if task == "multilabel":
        return _multilabel(values, truth, thresholds or [0.5] * values.shape[1], names, bins)
    known = truth != UNLABELED
    return _single(values[known], truth[known], task, thresholds, names, bins)


def _single(
    values: Floats,
    truth: Labels,
    task: Task,
    thresholds: Sequence[float] | None,
    names: Sequence[str] | None,
    bins: int,
) -> dict[str, Any]:
    classes, predicted = values.shape[1], values.argmax(1)
    per_class = _per_class(values, truth, task, thresholds, names)
    shares = recalls(predicted, truth, classes)
    for c, row in enumerate(per_class):
        chosen = predicted == c
        row["recall"] = None if np.isnan(shares[c]) else float(shares[c])
        row["precision"] = float((truth[chosen] == c).mean()) if chosen.any() else None
    result: dict[str, Any] = {
        "n": len(truth),
        "accuracy": float((predicted == truth).mean()) if len(truth) else None,
        "balanced_accuracy": balanced_accuracy(predicted, truth, classes),
        "macro_auc": mean_of([row["auc"] for row in per_class]),
        "ece": top_label_error(values, truth, bins=bins),
    }
    if classes > 5:
        result["top5"] = _top(values, truth, 5)
    if task == "ordinal":
        result["quadratic_weighted_kappa"] = _kappa(predicted, truth, classes)
    counts = (
        confusion_matrix(truth, predicted, labels=np.arange(classes))
        if len(truth)
        else np.zeros((classes, classes), int)
    )
    return result | {"confusion": counts.tolist(), "per_class": per_class}


def _multilabel(
    values: Floats, truth: Labels, thresholds: Sequence[float], names: Sequence[str] | None, bins: int
) -> dict[str, Any]:
    kept = (truth != UNKNOWN).any(1)
    values, truth = values[kept], truth[kept]
    predicted, known = (values >= np.asarray(thresholds)).astype(np.int64), truth != UNKNOWN
    per_class = _per_class(values, truth, "multilabel", thresholds, names)
    for c, row in enumerate(per_class):
        said, held = predicted[known[:, c], c], truth[known[:, c], c]
        hits, either = int((said & held).sum()), int(said.sum() + held.sum())
        row["accuracy"] = float((said == held).mean()) if len(held) else None
        row["balanced_accuracy"] = balanced_accuracy(said, held, 2, at_least=2)
        row["f1"] = 2 * hits / either if either else None
    complete = known.all(1)
    return {
        "n": len(truth),
        "accuracy": mean_of([row["accuracy"] for row in per_class]),
        "subset_accuracy": float((predicted == truth)[complete].all(1).mean()) if complete.any() else None,
        "balanced_accuracy": mean_of([row["balanced_accuracy"] for row in per_class]),
        "f1_macro": mean_of([row["f1"] for row in per_class]),
        "macro_auc": mean_of([row["auc"] for row in per_class]),
        "ece": expected_calibration_error(values[known], truth[known], bins=bins),
        "per_class": per_class,
    }


def _per_class(
    values: Floats, truth: Labels, task: Task, thresholds: Sequence[float] | None, names: Sequence[str] | None
) -> list[dict[str, Any]]:
    """AUC and the operating point of each class against the rest."""
    rows: list[dict[str, Any]] = []
    for c, (scores, positive, known) in enumerate(_one_against_rest(values, truth, task)):
        scores, positive = scores[known], positive[known]
        row: dict[str, Any] = {
            "class": names[c] if names else c,
            "support": int(positive.sum()),
            "auc": auc(scores, positive),
        }
        if thresholds is not None:
            above = scores >= thresholds[c]
            row |= {
                "threshold": float(thresholds[c]),
                "sensitivity": _share(above & positive, positive),
                "specificity": _share(~above & ~positive, ~positive),
                "ppv": _share(above & positive, above),
                "npv": _share(~above & ~positive, ~above),
            }
        rows.append(row)
    return rows


def _share(part: npt.NDArray[np.bool_], whole: npt.NDArray[np.bool_]) -> float | None:
    return float(part.sum() / whole.sum()) if whole.any() else None


def _top(values: Floats, truth: Labels, k: int) -> float | None:
    """Share of images whose class is among the k most probable; ties count in the order of the classes."""
    if not len(truth):
        return None
    best = np.argsort(-values, axis=1, kind="stable")[:, :k]
    return float((best == truth[:, None]).any(1).mean())


def _kappa(predicted: Labels, truth: Labels, classes: int) -> float | None:
    """Quadratic weighted kappa; None where agreement by chance is already perfect (one grade only)."""
    if not len(truth) or len(np.union1d(predicted, truth)) < 2:
        return None
    return float(cohen_kappa_score(truth, predicted, labels=np.arange(classes), weights="quadratic"))
