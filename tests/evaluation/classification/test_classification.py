"""Class metrics against scikit-learn, small tables worked by hand, and the edges where nothing can be measured."""

import json

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn import metrics as sk

from conceptlens.core.errors import UserError
from conceptlens.evaluation.classification.classification import choose_thresholds, class_metrics
from conceptlens.nn.heads.probabilities import class_probabilities


def some_task(n: int = 200, classes: int = 7, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.choice(classes, size=n, p=np.arange(1, classes + 1) / np.arange(1, classes + 1).sum())
    logits = rng.normal(size=(n, classes))
    logits[np.arange(n), labels] += 1.5
    return logits, labels


def test_single_equals_scikit_learn() -> None:
    logits, labels = some_task()
    probabilities, predicted = softmax(logits, axis=1), logits.argmax(1)
    found = class_metrics(class_probabilities(logits, "single"), labels, "single")
    assert found["n"] == 200
    assert found["accuracy"] == pytest.approx(sk.accuracy_score(labels, predicted))
    assert found["balanced_accuracy"] == pytest.approx(sk.balanced_accuracy_score(labels, predicted))
    assert found["top5"] == pytest.approx(sk.top_k_accuracy_score(labels, probabilities, k=5))
    assert found["macro_auc"] == pytest.approx(sk.roc_auc_score(labels, probabilities, multi_class="ovr"))
    assert found["confusion"] == sk.confusion_matrix(labels, predicted).tolist()
    precision, recall, _, support = sk.precision_recall_fscore_support(labels, predicted)
    for c, row in enumerate(found["per_class"]):
        assert (row["class"], row["support"]) == (c, support[c])
        assert row["precision"] == pytest.approx(precision[c])
        assert row["recall"] == pytest.approx(recall[c])
        assert row["auc"] == pytest.approx(sk.roc_auc_score(labels == c, probabilities[:, c]))
        assert "threshold" not in row
    assert "quadratic_weighted_kappa" not in found
    assert found == class_metrics(probabilities, labels, "single")


def test_ordinal_kappa() -> None:
    logits, labels = some_task(classes=4)
    found = class_metrics(class_probabilities(logits, "ordinal"), labels, "ordinal")
    expected = sk.cohen_kappa_score(labels, logits.argmax(1), weights="quadratic")
    assert found["quadratic_weighted_kappa"] == pytest.approx(expected)
    assert "top5" not in found
    # Said 0, 1, 1 where 0, 1, 2 is true: squared distance 1/3 on average, and (0+1+1 + 1+0+0 + 4+1+1) / 9 by chance
    by_hand = class_metrics(np.eye(3)[[0, 1, 1]], [0, 1, 2], "ordinal")["quadratic_weighted_kappa"]
    assert by_hand == pytest.approx(1 - (1 / 3) / 1)
    assert class_metrics(np.eye(3)[[1, 1]], [1, 1], "ordinal")["quadratic_weighted_kappa"] is None


def test_images_without_a_label_are_left_out() -> None:
    logits, labels = some_task(60, 3)
    masked = np.where(np.arange(60) % 3 == 0, -1, labels)
    kept = masked >= 0
    shares = class_probabilities(logits, "single")
    assert class_metrics(shares, masked, "single") == class_metrics(shares[kept], labels[kept], "single")
    assert choose_thresholds(shares, masked, "single") == choose_thresholds(shares[kept], labels[kept], "single")


def test_operating_point_by_hand() -> None:
    probabilities = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.8, 0.2], [0.1, 0.9]])
    row = class_metrics(probabilities, [0, 0, 0, 1, 1], "single", [0.5, 0.35], names=["ill", "well"])["per_class"][1]
    assert row["class"] == "well"
    assert row["threshold"] == 0.35
    # .4, .7 and .9 are at least .35: one of them is class 1, and one of class 1 is missed
    assert (row["sensitivity"], row["specificity"]) == (1 / 2, 1 / 3)
    assert (row["ppv"], row["npv"]) == (1 / 3, 1 / 2)


def test_an_undefined_share_is_none() -> None:
    row = class_metrics([[0.9, 0.1], [0.8, 0.2]], [0, 0], "single", [0.5, 0.5])["per_class"][1]
    assert row["sensitivity"] is row["ppv"] is row["recall"] is row["precision"] is row["auc"] is None
    assert row["specificity"] == row["npv"] == 1


def test_threshold_maximizes_youden() -> None:
    rng = np.random.default_rng(1)
    positive = rng.random(150) < 0.2
    scores = expit(rng.normal(size=150) + 1.5 * positive - 2)
    chosen = choose_thresholds(np.stack([1 - scores, scores], axis=1), positive.astype(int), "single")[1]

    def youden(threshold: float) -> float:
        return float((scores >= threshold)[positive].mean() - (scores >= threshold)[~positive].mean())

    assert youden(chosen) == pytest.approx(max(youden(t) for t in scores), abs=1e-12)
    assert chosen not in scores


def test_threshold_lies_midway_and_ties_go_towards_a_half() -> None:
    def chosen(scores: list[float], outcomes: list[int]) -> float:
        values = np.array(scores)
        return choose_thresholds(np.stack([1 - values, values], axis=1), outcomes, "single")[1]

    assert chosen([0.1, 0.2, 0.6, 0.9], [0, 0, 1, 1]) == pytest.approx(0.4)
    # J is ½ at .15 (one false alarm), and at .8 (one missed): .8 is nearer to .5 than .15
    assert chosen([0.1, 0.2, 0.7, 0.9], [0, 1, 0, 1]) == pytest.approx(0.8)
    assert chosen([0.2, 0.3], [1, 1]) == 0.5
    assert chosen([0.3, 0.3], [1, 0]) == 0.5
    low, high = 0.5, float(np.nextafter(0.5, 1))
    assert chosen([low, high], [0, 1]) == high


def test_multilabel_equals_scikit_learn() -> None:
    rng = np.random.default_rng(2)
    labels = (rng.random((120, 4)) < [0.5, 0.3, 0.2, 0.6]).astype(int)
    logits = rng.normal(size=(120, 4)) + labels - 0.5
    probabilities = expit(logits)
    thresholds = [0.4, 0.5, 0.3, 0.6]
    predicted = (probabilities >= thresholds).astype(int)
    found = class_metrics(class_probabilities(logits, "multilabel"), labels, "multilabel", thresholds)
    assert found["subset_accuracy"] == pytest.approx(sk.accuracy_score(labels, predicted))
    assert found["accuracy"] == pytest.approx((labels == predicted).mean())
    assert found["f1_macro"] == pytest.approx(sk.f1_score(labels, predicted, average="macro"))
    assert found["macro_auc"] == pytest.approx(sk.roc_auc_score(labels, probabilities, average="macro"))
    expected = np.mean([sk.balanced_accuracy_score(labels[:, c], predicted[:, c]) for c in range(4)])
    assert found["balanced_accuracy"] == pytest.approx(expected)
    assert "confusion" not in found


def test_multilabel_unknown_entries_are_masked_one_by_one() -> None:
    probabilities = np.array([[0.9, 0.2], [0.8, 0.7], [0.1, 0.6], [0.3, 0.3]])
    labels = np.array([[1, 0], [1, -1], [0, 1], [-1, -1]])
    found = class_metrics(probabilities, labels, "multilabel")
    assert found["n"] == 3
    assert found["accuracy"] == found["subset_accuracy"] == found["macro_auc"] == found["f1_macro"] == 1
    assert [row["support"] for row in found["per_class"]] == [2, 1]
    labels[:, 1] = [0, -1, 0, -1]  # one outcome only: no AUC, no balanced accuracy of that label
    found = class_metrics(probabilities, labels, "multilabel")
    assert found["per_class"][1]["auc"] is found["per_class"][1]["balanced_accuracy"] is None
    assert found["balanced_accuracy"] == 1
    assert found["per_class"][1]["accuracy"] == 1 / 2


@pytest.mark.parametrize("task", ["single", "ordinal", "multilabel"])
def test_nothing_to_measure_is_valid_json(task: str) -> None:
    labels = np.full((3, 6), -1) if task == "multilabel" else np.full(3, -1)
    for scores, truth in ((np.zeros((3, 6)), labels), (np.zeros((0, 6)), labels[:0])):
        found = class_metrics(scores, truth, task, [0.5] * 6)  # type: ignore[arg-type]
        assert found["n"] == 0
        assert found["accuracy"] is found["balanced_accuracy"] is found["macro_auc"] is found["ece"] is None
        json.dumps(found, allow_nan=False)


def test_logits_become_probabilities_and_are_never_guessed() -> None:
    logits = np.array([[0.2, 0.8], [0.5, 0.5]])  # could be taken for probabilities
    assert class_probabilities(logits, "single") == pytest.approx(softmax(logits, axis=1))
    assert class_probabilities(logits, "multilabel") == pytest.approx(expit(logits))
    with pytest.raises(UserError, match="convert logits"):
        class_metrics(np.array([[-1.0, 2.0]]), [0], "single")


def test_bad_input_is_explained() -> None:
    with pytest.raises(UserError, match=r"1 of 2 images are not finite.*diverged"):
        class_metrics([[0.0, 1.0], [np.nan, 0.0]], [0, 1], "single")
    with pytest.raises(UserError, match=r"labels \(3,\)"):
        class_metrics(np.eye(2), [0, 1, 1], "single")
    with pytest.raises(UserError, match="one threshold for each of 2 classes, found 1"):
        class_metrics(np.eye(2), [0, 1], "single", [0.5])
