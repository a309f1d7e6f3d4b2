"""The supervised losses (IVQ-CBM paper, Eq. 7 to 9), normalized by the counts of the *global* batch.

Every process knows the labels of the whole batch, so each divides by the same counts and no process needs to ask.
Unknown labels count nowhere. Nothing here asks the device for a number, and no shape depends on the labels: a GPU never
waits for the loop, and the whole step can be compiled.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from conceptlens.concepts import UNKNOWN, ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.core.registry import LOSSES
from conceptlens.data.dataset import UNLABELED, Examples, Task
from conceptlens.methods.contract import ConceptOutput
from conceptlens.nn.grounding.places import PlaceTargets
from conceptlens.recipes import LossConfig


@dataclass(frozen=True)
class Targets:
    """Labels of B images."""

    labels: Tensor  # (B,) or (B, C)
    concepts: Tensor  # (B, K) of 0, 1, UNKNOWN
    weights: Tensor  # (B, K): certainty of each concept label, 0 where it is unknown
    places: PlaceTargets | None = None  # where things are, for a method that learns from that
    chance: Tensor | None = None  # (B, n): what RandInt draws for these images

    @classmethod
    def of(cls, examples: Examples, indices: npt.NDArray[np.int64]) -> "Targets":
        concepts = torch.from_numpy(examples.concepts[indices].astype(np.int64))
        weights = (concepts != UNKNOWN).float()
        if examples.certainty is not None:
            weights = weights * torch.from_numpy(examples.certainty[indices])
        return cls(torch.from_numpy(examples.labels[indices]), concepts, weights)

    def __getitem__(self, part: slice) -> "Targets":
        places = None if self.places is None else self.places[part]
        chance = None if self.chance is None else self.chance[part]
        return Targets(self.labels[part], self.concepts[part], self.weights[part], places, chance)

    def to(self, device: torch.device) -> "Targets":
        move = {"device": device, "non_blocking": True}
        places = None if self.places is None else self.places.to(device)
        return Targets(self.labels.to(**move), self.concepts.to(**move), self.weights.to(**move), places)  # type: ignore[call-overload]


@dataclass(frozen=True)
class Counts:
    """What the sums of a batch are divided by."""

    images: int
    classes: Tensor  # ()
    concepts: Tensor  # () for `bce`, (groups,) for `group`


def class_weights(config: LossConfig, labels: npt.NDArray[np.int64], classes: int, task: Task) -> Tensor:
    """One weight per class, (C,): ones, the inverse of the class's share among training images, or as given."""
    if isinstance(config.class_balance, list):
        if len(config.class_balance) != classes:
            found = len(config.class_balance)
            raise UserError(f"training.loss.class_balance: expected {classes} weights, one per class, found {found}.")
        return torch.tensor(config.class_balance, dtype=torch.float32)
    if config.class_balance == "none":
        return torch.ones(classes)
    if task == "multilabel":
        raise UserError(
            "training.loss.class_balance: `balanced` is for one class per image; give one weight per class instead."
        )
    counts = np.bincount(labels[labels != UNLABELED], minlength=classes)
    weights = counts.sum() / np.maximum(counts, 1) / max(int((counts > 0).sum()), 1)
    return torch.from_numpy(weights.astype(np.float32))


class SupervisedLoss:
    """Class and concept loss of a batch or a piece of one."""

    def __init__(self, config: LossConfig, concepts: ConceptSet, task: Task, weights: Tensor) -> None:
        """`weights` of the classes, (C,), where the logits will be."""
        self.config, self.concepts, self.task, self.weights = config, concepts, task, weights
        for name in config.own:
            LOSSES.get(name)  # refuses before the work

    def shares(self, targets: Targets) -> Tensor:
        """What each image adds to the counts of its batch, (B, 1 + n): of the class loss, then of the concept loss."""
        if self.task == "multilabel":
            classes = (targets.labels != UNKNOWN).sum(1).float()
        else:
            classes = self.weights[targets.labels.clamp_min(0)] * (targets.labels != UNLABELED)
        concepts = [targets.weights.sum(1)]
        if self.config.concept == "group":
            concepts = [
                _group_weight(targets.weights[:, group.concepts], group.kind == "exclusive")
                for group in self.concepts.groups
            ]
        return torch.stack([classes, *concepts], 1)

    def counts_of(self, shares: Tensor) -> Counts:
        """The counts of a batch from the shares of all its images, over all processes and accumulation steps."""
        total = shares.sum(0)
        return Counts(len(shares), total[0], total[1:] if self.config.concept == "group" else total[1])

    def count(self, whole: Targets) -> Counts:
        """The counts of a batch from its labels."""
        return self.counts_of(self.shares(whole))

    def class_loss(self, logits: Tensor, labels: Tensor, counts: Counts) -> Tensor:
        """Eq. 7: cross-entropy, weighted by class; for several classes an image, binary cross-entropy of each."""
        if self.task == "multilabel":
            known = labels != UNKNOWN
            each = F.binary_cross_entropy_with_logits(logits, labels.clamp_min(0).to(logits.dtype), reduction="none")
            return (each * known * self.weights.to(logits)).sum() / counts.classes.clamp_min(1e-8).to(logits)
        each = F.cross_entropy(
            logits,
            labels,
            weight=self.weights.to(logits),
            ignore_index=UNLABELED,
            label_smoothing=self.config.label_smoothing,
            reduction="none",
        )
        return each.sum() / counts.classes.clamp_min(1e-8).to(logits)

    def concept_loss(self, logits: Tensor, targets: Targets, counts: Counts, shares: Tensor | None = None) -> Tensor:
        """Eq. 8: binary cross-entropy of every known concept, or the mean over groups of the cross-entropy in each.

        Of logits (B, K), or of those of patches (B, L, K), which count by their `shares` of their image.
        """
        positive, weights = targets.concepts.clamp_min(0).to(logits.dtype), targets.weights
        said = positive  # (B, K) or (B, L, K): how much a concept that is present counts
        if shares is not None:
            positive = positive.unsqueeze(1).expand_as(logits)
            said, weights = positive * shares, weights.unsqueeze(1) * shares
        each = F.binary_cross_entropy_with_logits(logits, positive, reduction="none") * weights
        if self.config.concept == "bce":
            return each.sum() / counts.concepts.clamp_min(1e-8).to(logits)
        sums = []
        for group in self.concepts.groups:
            if group.kind == "exclusive":
                weight = _group_weight(targets.weights[:, group.concepts], True)
                surprise = -(logits[..., group.concepts].log_softmax(-1) * said[..., group.concepts]).sum(-1)
                sums.append(((surprise if shares is None else surprise.sum(1)) * weight).sum())
            else:
                sums.append(each[..., group.concepts].sum())
        known = counts.concepts.to(logits)
        return (torch.stack(sums) / known.clamp_min(1e-8)).sum() / (known > 0).sum().clamp_min(1)

    def __call__(self, output: ConceptOutput, targets: Targets, counts: Counts) -> dict[str, Tensor]:
        """Weighted terms of Eq. 9; their sum over all pieces of a batch is the batch's loss."""
        terms = {"class": self.config.class_weight * self.class_loss(output.logits.float(), targets.labels, counts)}
        if output.auxiliary is not None:  # of a method with a second class head, which decides nothing
            surprise = self.class_loss(output.auxiliary.float(), targets.labels, counts)
            terms["auxiliary"] = self.config.class_weight * output.auxiliary_weight * surprise
        if output.concept_logits.shape[1]:  # not of a method that reads no concepts
            surprise = self.concept_loss(output.concept_logits.float(), targets, counts)
            terms["concept"] = self.config.concept_weight * surprise
        if output.patch_logits is not None and output.patch_logits.shape[-1]:
            surprise = self.concept_loss(output.patch_logits.float(), targets, counts, output.patch_shares)
            terms["patches"] = self.config.concept_weight * output.patch_loss_weight * surprise
        terms |= {name: value.float().sum() / counts.images for name, value in output.losses.items()}
        return terms | {name: self.own_loss(name, output, targets, counts) for name in self.config.own}

    def own_loss(self, name: str, output: ConceptOutput, targets: Targets, counts: Counts) -> Tensor:
        """A registered loss, weighted."""
        values: Tensor = LOSSES.get(name)(output, targets)
        if not isinstance(values, Tensor) or values.shape != output.logits.shape[:1]:
            found = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise UserError(f"training.loss.own: {name} must return one value an image, (B,); found {found}.")
        return self.config.own[name] * values.float().sum() / counts.images


def _group_weight(weights: Tensor, exclusive: bool) -> Tensor:
    """A group's weight per image, (B,): its values are known together or not at all."""
    return weights.amax(-1) if exclusive else weights.sum(-1)
