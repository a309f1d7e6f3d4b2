"""Losses against torch's own and hand-worked numbers; pieces of a batch add up to the batch."""

import math
from typing import Literal

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.data.dataset import Examples
from conceptlens.methods.contract import ConceptOutput
from conceptlens.recipes import LossConfig
from conceptlens.training.optimization.losses import SupervisedLoss, Targets, class_weights


def examples(n: int = 12, *, unknown: bool = True) -> Examples:
    rng = np.random.default_rng(0)
    size, color = rng.integers(2, size=n), rng.integers(2, size=n)
    concepts = np.stack([size, 1 - size, color, 1 - color, rng.integers(2, size=n)], 1).astype(np.int8)
    if unknown:
        concepts[0, :2] = -1
        concepts[1, 4] = -1
        concepts[2] = -1
    return Examples(tuple(map(str, range(n))), rng.integers(2, size=n).astype(np.int64), concepts)


def output(n: int = 12) -> ConceptOutput:
    generator = torch.Generator().manual_seed(0)
    concept = torch.randn(n, 5, generator=generator, requires_grad=True)
    logits = torch.randn(n, 2, generator=generator, requires_grad=True)
    patches, shares = torch.randn(n, 3, 5, generator=generator), torch.rand(n, 3, 5, generator=generator)
    return ConceptOutput(
        logits,
        concept,
        concept,
        losses={"ivq": torch.arange(n).float()},
        patch_logits=patches,
        patch_shares=shares / shares.sum(1, keepdim=True),
        patch_loss_weight=2.0,
    )


def part(whole: ConceptOutput, where: slice) -> ConceptOutput:
    return ConceptOutput(
        whole.logits[where],
        whole.concept_logits[where],
        whole.bottleneck[where],
        losses={k: v[where] for k, v in whole.losses.items()},
        patch_logits=None if whole.patch_logits is None else whole.patch_logits[where],
        patch_shares=None if whole.patch_shares is None else whole.patch_shares[where],
        patch_loss_weight=whole.patch_loss_weight,
    )


def test_bce_by_hand(concepts: ConceptSet) -> None:
    # All logits zero: ln 2 for every known concept, whatever its label.
    loss = SupervisedLoss(LossConfig(), concepts, "single", torch.ones(2))
    whole = Targets.of(examples(), np.arange(12))
    found = loss.concept_loss(torch.zeros(12, 5), whole, loss.count(whole))
    assert found.item() == pytest.approx(math.log(2))


def test_bce_equals_torch_on_known_labels(concepts: ConceptSet) -> None:
    loss = SupervisedLoss(LossConfig(), concepts, "single", torch.ones(2))
    data = examples()
    whole = Targets.of(data, np.arange(12))
    said = output()
    known = data.concepts >= 0
    expected = F.binary_cross_entropy_with_logits(
        said.concept_logits[known], torch.from_numpy(data.concepts[known]).float()
    )
    torch.testing.assert_close(loss.concept_loss(said.concept_logits, whole, loss.count(whole)), expected)


def test_axis_loss_is_the_mean_over_axes_of_cross_entropy(concepts: ConceptSet) -> None:
    loss = SupervisedLoss(LossConfig(concept="group"), concepts, "single", torch.ones(2))
    data = examples()
    whole, said = Targets.of(data, np.arange(12)), output()
    means = []
    for start in (0, 2):
        rows = data.concepts[:, start] >= 0
        means.append(
            F.cross_entropy(
                said.concept_logits[rows, start : start + 2],
                torch.from_numpy(data.concepts[rows, start : start + 2].argmax(1)),
            )
        )
    rows = data.concepts[:, 4] >= 0
    means.append(
        F.binary_cross_entropy_with_logits(
            said.concept_logits[rows, 4], torch.from_numpy(data.concepts[rows, 4]).float()
        )
    )
    torch.testing.assert_close(
        loss.concept_loss(said.concept_logits, whole, loss.count(whole)), torch.stack(means).mean()
    )


@pytest.mark.parametrize("kind", ["bce", "group"])
def test_the_loss_of_patches_is_the_concept_loss_of_each_weighed_by_its_share(
    concepts: ConceptSet, kind: Literal["bce", "group"]
) -> None:
    loss = SupervisedLoss(LossConfig(concept=kind, concept_weight=0.5), concepts, "single", torch.ones(2))
    data, said = examples(), output()
    whole = Targets.of(data, np.arange(12))
    assert said.patch_logits is not None
    assert said.patch_shares is not None
    sums = [0.0] * 3
    for image, patch in np.ndindex(12, 3):
        logits, share = said.patch_logits[image, patch].double(), said.patch_shares[image, patch].double()
        labels = data.concepts[image]
        if kind == "group":
            for place, start in enumerate((0, 2)):
                if labels[start] >= 0:
                    right = start + int(labels[start : start + 2].argmax())
                    surprise = logits[start : start + 2].exp().sum().log() - logits[right]
                    sums[place] += float(share[right] * surprise)
        for k in range(5) if kind == "bce" else [4]:
            if labels[k] >= 0:
                sums[2] += float(share[k] * F.softplus(-logits[k] if labels[k] else logits[k]))
    if kind == "bce":
        expected = sums[2] / (data.concepts >= 0).sum()
    else:
        expected = sum(one / (data.concepts[:, k] >= 0).sum() for one, k in zip(sums, (0, 2, 4), strict=True)) / 3
    assert loss(said, whole, loss.count(whole))["patches"].item() == pytest.approx(0.5 * 2.0 * expected)


def test_a_single_patch_is_the_image(concepts: ConceptSet) -> None:
    loss = SupervisedLoss(LossConfig(concept="group"), concepts, "single", torch.ones(2))
    whole, said = Targets.of(examples(), np.arange(12)), output()
    counts, logits = loss.count(whole), said.concept_logits
    alone = loss.concept_loss(logits.unsqueeze(1), whole, counts, torch.ones(12, 1, 5))
    torch.testing.assert_close(alone, loss.concept_loss(logits, whole, counts))


def test_weighted_class_loss_equals_torch(concepts: ConceptSet) -> None:
    weights = torch.tensor([0.5, 2.0])
    loss = SupervisedLoss(LossConfig(label_smoothing=0.1), concepts, "single", weights)
    data, said = examples(), output()
    whole = Targets.of(data, np.arange(12))
    expected = F.cross_entropy(said.logits, torch.from_numpy(data.labels), weight=weights, label_smoothing=0.1)
    torch.testing.assert_close(loss.class_loss(said.logits, whole.labels, loss.count(whole)), expected)


@pytest.mark.parametrize("kind", ["bce", "group"])
def test_pieces_add_up_to_the_batch(concepts: ConceptSet, kind: str) -> None:
    """Two processes with different numbers of known labels: the sum of their parts is the loss of the whole."""
    loss = SupervisedLoss(LossConfig(concept=kind), concepts, "single", torch.tensor([1.0, 3.0]))  # type: ignore[arg-type]
    whole, said = Targets.of(examples(), np.arange(12)), output()
    counts = loss.count(whole)
    together = loss(said, whole, counts)
    pieces = [loss(part(said, where), whole[where], counts) for where in (slice(0, 4), slice(4, 12))]
    for name, value in together.items():
        torch.testing.assert_close(sum(piece[name] for piece in pieces), value)
    assert together["ivq"].item() == pytest.approx(np.arange(12).mean())


def test_unknown_labels_get_no_gradient(concepts: ConceptSet) -> None:
    for kind in ("bce", "group"):
        loss = SupervisedLoss(LossConfig(concept=kind), concepts, "single", torch.ones(2))  # type: ignore[arg-type]
        data = examples()
        whole, said = Targets.of(data, np.arange(12)), output()
        (gradient,) = torch.autograd.grad(
            loss.concept_loss(said.concept_logits, whole, loss.count(whole)), said.concept_logits
        )
        assert bool((gradient[torch.from_numpy(data.concepts) < 0] == 0).all())
        assert bool((gradient[torch.from_numpy(data.concepts) >= 0] != 0).all())


def test_certainty_weighs_a_label(concepts: ConceptSet) -> None:
    data = examples(unknown=False)
    certain = Examples(data.ids, data.labels, data.concepts, certainty=np.full((12, 5), 1.0, np.float32))
    certain.certainty[:6] = 0  # type: ignore[index]
    loss = SupervisedLoss(LossConfig(), concepts, "single", torch.ones(2))
    said = output()
    whole = Targets.of(certain, np.arange(12))
    expected = F.binary_cross_entropy_with_logits(said.concept_logits[6:], torch.from_numpy(data.concepts[6:]).float())
    torch.testing.assert_close(loss.concept_loss(said.concept_logits, whole, loss.count(whole)), expected)


def test_multilabel_masks_unknown_classes(concepts: ConceptSet) -> None:
    labels = np.array([[1, 0], [-1, 1], [0, -1]], dtype=np.int64)
    data = Examples(("a", "b", "c"), labels, np.full((3, 5), -1, np.int8))
    loss = SupervisedLoss(LossConfig(), concepts, "multilabel", torch.ones(2))
    whole, logits = Targets.of(data, np.arange(3)), torch.randn(3, 2)
    known = labels >= 0
    expected = F.binary_cross_entropy_with_logits(logits[known], torch.from_numpy(labels[known]).float())
    torch.testing.assert_close(loss.class_loss(logits, whole.labels, loss.count(whole)), expected)
    assert loss.concept_loss(torch.zeros(3, 5), whole, loss.count(whole)).item() == 0.0


def test_class_weights() -> None:
    labels = np.array([0, 0, 0, 1, -1])
    balanced = class_weights(LossConfig(class_balance="balanced"), labels, 2, "single")
    torch.testing.assert_close(balanced, torch.tensor([4 / 3 / 2, 4 / 1 / 2]))
    with pytest.raises(UserError, match="expected 2 weights"):
        class_weights(LossConfig(class_balance=[1.0]), labels, 2, "single")
