"""CTL and ICL by hand and by a loop over counts."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from conceptlens.concepts import UNKNOWN
from conceptlens.evaluation.leakage.published_scores import CUTS, entropy, mutual_information, published_scores
from tests.evaluation.trust.world import clean, leaky


def naive_entropy(values: list[object]) -> float:
    counts, n = Counter(values), len(values)
    return -sum(c / n * math.log(c / n) for c in counts.values()) + (len(counts) - 1) / (2 * n)


def test_entropy_and_information_by_hand() -> None:
    four = np.array([0, 0, 1, 1])
    assert entropy(four) == pytest.approx(math.log(2) + 1 / 8)
    assert entropy(np.zeros(4, np.int64)) == 0
    assert mutual_information(four, four) == pytest.approx(math.log(2) + 1 / 8)  # twice H, less H of the two pairs
    # Independent: H is ln 2 + 1/8 each and ln 4 + 3/8 together, so -1/8 remains, which is no information.
    assert mutual_information(four, np.array([0, 1, 0, 1])) == 0


def test_scores_against_a_loop() -> None:
    made = leaky(400)
    truth = made.truth.copy()
    truth[::7, 2] = UNKNOWN
    made = replace(made, truth=truth)
    cuts = np.quantile(made.bottleneck, np.arange(1, CUTS) / CUTS, axis=0)
    cells = (made.bottleneck[:, None] >= cuts[None]).sum(1)

    def shared(one: list[object], two: list[object]) -> float:
        pairs: list[object] = list(zip(one, two, strict=True))
        return max(0.0, naive_entropy(one) + naive_entropy(two) - naive_entropy(pairs))

    def column(values: np.ndarray, rows: np.ndarray) -> list[object]:
        return list(values[rows].tolist())

    tasks, pairs = [], []
    for k in range(7):
        rows = np.flatnonzero(truth[:, k] != UNKNOWN)
        y = column(made.labels, rows)
        more = shared(column(cells[:, k], rows), y) - shared(column(truth[:, k], rows), y)
        tasks.append(max(0.0, more / naive_entropy(y)))
        for j in range(k):
            both = np.flatnonzero((truth[:, k] != UNKNOWN) & (truth[:, j] != UNKNOWN))
            parts = []
            for source in (cells, truth):
                one, two = column(source[:, k], both), column(source[:, j], both)
                parts.append(shared(one, two) / math.sqrt(naive_entropy(one) * naive_entropy(two)))
            pairs.append(max(0.0, parts[0] - parts[1]))
    found = published_scores(made)
    assert found.ctl == pytest.approx(np.mean(tasks))
    assert found.icl == pytest.approx(np.mean(pairs))


def test_a_leak_raises_both_and_labels_have_none() -> None:
    honest, leaking = published_scores(clean(800)), published_scores(leaky(800))
    assert (leaking.ctl or 0) > (honest.ctl or 0) + 0.03
    assert (leaking.icl or 0) > (honest.icl or 0)
    made = clean(800)
    itself = published_scores(replace(made, bottleneck=made.truth.astype(np.float64)))
    assert itself.ctl == pytest.approx(0, abs=1e-9)
    assert itself.icl == pytest.approx(0, abs=1e-9)
    assert itself.text() == "CTL 0.000, ICL 0.000"
    nobody = published_scores(replace(made, truth=np.full_like(made.truth, UNKNOWN)))
    assert nobody.ctl is None
    assert nobody.text() == "CTL -, ICL -"
