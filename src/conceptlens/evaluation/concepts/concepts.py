"""How well concepts are read: per group of the concept set and as a mean over groups, every group counting the same.

An exclusive group is one question, an independent group the mean of its yes/no questions; see `group_scores`. Where
concept labels follow from the class, a model can score on concepts by knowing the class alone; `auc_within_class`
compares images of one class only and does not reward that.
"""

from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from conceptlens.concepts import ConceptSet
from conceptlens.evaluation.calibration.ece import top_label_error
from conceptlens.evaluation.classification.auc import auc, auc_within
from conceptlens.evaluation.classification.balanced import balanced_accuracy, mean_of
from conceptlens.evaluation.concepts.groups import GroupScores, group_scores

MEANS = ("accuracy", "balanced_accuracy", "balanced_accuracy_prior_corrected", "auc", "auc_within_class", "ece")


def concept_metrics(
    logits: npt.ArrayLike,
    labels: npt.ArrayLike,
    concepts: ConceptSet,
    *,
    class_labels: npt.ArrayLike | None = None,
    priors: npt.ArrayLike | None = None,
    bins: int = 15,
) -> dict[str, Any]:
    """Everything said about the concepts of a split; ready for JSON.

    Args:
        logits: (N, K).
        labels: (N, K) of 0, 1, UNKNOWN; unknown labels are left out.
        concepts: The vocabulary.
        class_labels: (N,) or, for a multi-label task, (N, C); for `auc_within_class`. Negative means unknown.
        priors: (K,) from `concept_priors` of the training labels; for the prior correction.
        bins: Of the calibration error.

    Returns:
        Means over groups of
        `accuracy`;
        `balanced_accuracy`, mean recall over the values that occur, of questions where at least two do;
        `balanced_accuracy_prior_corrected`, the same with decisions by logit − log training prior;
        `auc`, one value against the rest, mean over values with both outcomes;
        `auc_within_class`, the same from pairs of images of one class, each class weighing in with its number of pairs;
        `ece`, of the most probable value.
        Besides: `balanced_accuracy_pooled`, the published code's figure: predicted and true positions of all
            groups in one list, scored as if position 2 of one group were the class position 2 of another;
        `groups_at_chance`, count and names of the groups at chance (see `_chance`); `per_group` and `per_concept`.
    """
    asked = group_scores(logits, labels, concepts, priors)
    strata = None if class_labels is None else _strata(np.asarray(class_labels))
    measured = [_score_group(scored, strata, bins) for scored in asked]
    per_group = []
    for group, members in groupby(zip(asked, measured, strict=True), key=lambda pair: pair[0].group):
        pairs = list(members)
        rows = [row for _, row in pairs]
        known = np.any([scored.known for scored, _ in pairs], axis=0)
        merged: dict[str, Any] = {"group": group.name, "kind": group.kind, "n": int(known.sum())}
        merged |= {name: mean_of([row[name] for row in rows]) for name in (*MEANS, "chance")}
        # Yes/no questions of one group are correlated: averaging their errors as if wholly so is the cautious choice.
        error = mean_of([row["chance_error"] for row in rows])
        achieved, chance = merged["balanced_accuracy"], merged["chance"]
        if achieved is None or chance is None or error is None:
            merged["at_chance"] = None
        else:
            merged["at_chance"] = bool(achieved <= chance + 2 * error + 1e-9)
        per_group.append(merged)
    at_chance = [row["group"] for row in per_group if row["at_chance"]]
    return {
        **{name: mean_of([row[name] for row in per_group]) for name in MEANS},
        "balanced_accuracy_pooled": _pooled(asked),
        "groups_at_chance": {"count": len(at_chance), "of": len(per_group), "names": at_chance},
        "per_group": per_group,
        "per_concept": _per_concept(asked, strata, concepts),
    }


def _score_group(scored: GroupScores, strata: npt.NDArray[np.int64] | None, bins: int) -> dict[str, float | None]:
    known, count = scored.known, scored.logits.shape[1]
    truth, predicted = scored.truth[known], scored.predicted[known]
    corrected = scored.corrected
    chance, error = _chance(predicted, truth, count)
    return {
        "accuracy": float((predicted == truth).mean()) if len(truth) else None,
        "balanced_accuracy": balanced_accuracy(predicted, truth, count, at_least=2),
        "balanced_accuracy_prior_corrected": (
            None if corrected is None else balanced_accuracy(corrected[known], truth, count, at_least=2)
        ),
        "auc": mean_of([_auc(scored, answer) for answer in scored.answers]),
        "auc_within_class": mean_of([_auc_within(scored, answer, strata) for answer in scored.answers]),
        "ece": top_label_error(scored.probabilities[known], truth, bins=bins),
        "chance": chance,
        "chance_error": error,
    }


def _chance(
    predicted: npt.NDArray[np.int64], truth: npt.NDArray[np.int64], count: int
) -> tuple[float | None, float | None]:
    """Balanced accuracy of a predictor that ignores the image, and its standard error.

    With V values in the labels it is 1 / V on average. If value v is predicted at the rate q_v whatever the truth, its
    recall over n_v images varies by q_v (1 − q_v) / n_v, and the mean of recalls by Σ_v q_v (1 − q_v) / n_v / V². A
    constant prediction has no error and is at chance exactly. A group is *at chance* when its balanced accuracy is not
    more than two standard errors above; a predictor that does ignore the image passes for better in about one case in
    forty.
    """
    support = np.bincount(truth, minlength=count)
    present = support > 0
    if present.sum() < 2:
        return None, None
    rate = np.bincount(predicted, minlength=count) / len(predicted)
    variance = (rate * (1 - rate))[present] / support[present]
    return float(1 / present.sum()), float(np.sqrt(variance.sum()) / present.sum())


def _auc(scored: GroupScores, answer: int) -> float | None:
    return auc(scored.log_odds(answer)[scored.known], scored.truth[scored.known] == answer)


def _auc_within(scored: GroupScores, answer: int, strata: npt.NDArray[np.int64] | None) -> float | None:
    if strata is None:
        return None
    kept = scored.known & (strata >= 0)
    return auc_within(scored.log_odds(answer)[kept], scored.truth[kept] == answer, strata[kept])


def _strata(class_labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """One number per class or, for a multi-label task, per combination of labels; negative where a label is unknown."""
    if class_labels.ndim == 1:
        return class_labels
    combination = np.unique(class_labels, axis=0, return_inverse=True)[1].reshape(-1)
    return np.where((class_labels < 0).any(1), -1, combination)


def _pooled(asked: list[GroupScores]) -> float | None:
    predicted = np.concatenate([scored.predicted[scored.known] for scored in asked])
    truth = np.concatenate([scored.truth[scored.known] for scored in asked])
    if not len(truth):
        return None
    return balanced_accuracy(predicted, truth, max(scored.logits.shape[1] for scored in asked))


def _per_concept(
    asked: list[GroupScores], strata: npt.NDArray[np.int64] | None, concepts: ConceptSet
) -> list[dict[str, Any]]:
    rows = []
    for scored in asked:
        for answer, column in zip(scored.answers, scored.columns, strict=True):
            rows.append(
                {
                    "concept": concepts.concepts[column].name,
                    "n": int(scored.known.sum()),
                    "positives": int((scored.truth == answer).sum()),
                    "auc": _auc(scored, answer),
                    "auc_within_class": _auc_within(scored, answer, strata),
                }
            )
    return rows
