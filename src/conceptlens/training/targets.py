"""The labels of all images on the device, from which those of a batch are gathered there."""

import torch
from torch import Tensor

from conceptlens.concepts import UNKNOWN
from conceptlens.data.dataset import Examples
from conceptlens.training.losses import Counts, SupervisedLoss, Targets

CHUNK = 8192


class TargetTable:
    """Labels of all N images, and what each adds to the counts of its batch.

    Args:
        examples: Where the labels come from.
        loss: What counts.
        device: Where the batches are needed.
    """

    def __init__(self, examples: Examples, loss: SupervisedLoss, device: torch.device) -> None:
        self.loss = loss
        self.labels = torch.from_numpy(examples.labels).to(device)
        self.concepts = torch.from_numpy(examples.concepts).to(device)  # (N, K), a byte each
        self.certainty = None if examples.certainty is None else torch.from_numpy(examples.certainty).to(device)
        rows = torch.arange(len(examples), device=device)
        parts = (rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK))
        self.shares = torch.cat([loss.shares(self.targets(part)) for part in parts])

    def targets(self, indices: Tensor) -> Targets:
        """The labels of the images at these positions, (B,) of int64 on the table's device."""
        concepts = self.concepts[indices]
        weights = (concepts != UNKNOWN).float()
        if self.certainty is not None:
            weights = weights * self.certainty[indices]
        return Targets(self.labels[indices], concepts, weights)

    def counts(self, indices: Tensor) -> Counts:
        """What the sums of a batch of these images are divided by."""
        return self.loss.counts_of(self.shares[indices])
