"""Labels gathered on the device: those of the data, and counts that equal a naive sum over the batch."""

from typing import Any

import numpy as np
import pytest
import torch

from conceptlens.concepts import ConceptSet
from conceptlens.data.dataset import Examples, Task
from conceptlens.recipes import LossConfig
from conceptlens.training.batches.targets import TargetTable
from conceptlens.training.optimization.losses import SupervisedLoss, Targets

CPU = torch.device("cpu")
WEIGHTS = torch.tensor([0.5, 2.0])


def examples(task: Task, *, certainty: bool) -> Examples:
    rng = np.random.default_rng(0)
    labels = rng.integers(-1, 2, (30, 2) if task == "multilabel" else 30)
    concepts = rng.integers(-1, 2, (30, 5)).astype(np.int8)
    known = rng.random((30, 5), dtype=np.float32) if certainty else None
    return Examples(tuple(map(str, range(30))), labels, concepts, certainty=known)


@pytest.mark.parametrize("certainty", [False, True])
@pytest.mark.parametrize("kind", ["bce", "group"])
@pytest.mark.parametrize("task", ["single", "multilabel"])
def test_a_batch_is_what_the_data_say(
    concepts: ConceptSet, task: Task, kind: Any, certainty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("conceptlens.training.batches.targets.CHUNK", 7)
    data = examples(task, certainty=certainty)
    loss = SupervisedLoss(LossConfig(concept=kind), concepts, task, WEIGHTS)
    table = TargetTable(data, loss, CPU)
    indices = np.array([4, 29, 4, 0, 11])
    found, expected = table.targets(torch.from_numpy(indices)), Targets.of(data, indices)
    assert torch.equal(found.labels, expected.labels)
    assert torch.equal(found.concepts.long(), expected.concepts)
    assert torch.equal(found.weights, expected.weights)
    counts = table.counts(torch.from_numpy(indices))
    assert counts.images == 5
    assert float(counts.classes) == pytest.approx(naive_classes(data, indices, task))
    assert np.atleast_1d(counts.concepts.numpy()) == pytest.approx(naive_concepts(data, indices, concepts, kind))


def naive_classes(data: Examples, indices: np.ndarray, task: Task) -> float:
    if task == "multilabel":
        return sum(float(label >= 0) for index in indices for label in data.labels[index])
    return sum(float(WEIGHTS[data.labels[index]]) for index in indices if data.labels[index] >= 0)


def naive_concepts(data: Examples, indices: np.ndarray, concepts: ConceptSet, kind: str) -> list[float]:
    def weight(index: int, k: int) -> float:
        certain = 1.0 if data.certainty is None else float(data.certainty[index, k])
        return certain * float(data.concepts[index, k] >= 0)

    columns = [list(range(len(concepts)))[group.concepts] for group in concepts.groups]
    if kind == "bce":
        return [sum(weight(index, k) for index in indices for k in range(len(concepts)))]
    sums = []
    for group, mine in zip(concepts.groups, columns, strict=True):
        join = max if group.kind == "exclusive" else sum
        sums.append(sum(join([weight(index, k) for k in mine]) for index in indices))
    return sums
