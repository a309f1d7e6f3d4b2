"""The labels of all images on the device, from which those of a batch are gathered there."""

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from conceptlens.concepts import UNKNOWN
from conceptlens.data.dataset import Examples
from conceptlens.nn.grounding.places import PlaceTargets
from conceptlens.training.optimization.losses import Counts, SupervisedLoss, Targets

CHUNK = 8192
Indices = npt.NDArray[np.int64]


class TargetTable:
    """Labels of all N images, and what each adds to the counts of its batch.

    Args:
        examples: Where the labels come from.
        loss: What counts.
        device: Where the batches are needed.
        places: Where things are in the training images, for a method that learns from that.
        train: (n,) positions of the training images, in the order of `places`.
    """

    def __init__(
        self,
        examples: Examples,
        loss: SupervisedLoss,
        device: torch.device,
        places: PlaceTargets | None = None,
        train: Indices | None = None,
    ) -> None:
        self.loss = loss
        self.places, self.row = None, torch.full((len(examples),), -1, dtype=torch.int64, device=device)
        self.labels = torch.from_numpy(examples.labels).to(device)
        self.concepts = torch.from_numpy(examples.concepts).to(device)  # (N, K), a byte each
        self.certainty = None if examples.certainty is None else torch.from_numpy(examples.certainty).to(device)
        rows = torch.arange(len(examples), device=device)
        parts = (rows[start : start + CHUNK] for start in range(0, len(rows), CHUNK))
        self.shares = torch.cat([loss.shares(self.targets(part)) for part in parts])
        if places is not None and train is not None:
            self.places = places.to(device)
            self.row[torch.from_numpy(train).to(device)] = torch.arange(len(train), device=device)

    def targets(self, indices: Tensor) -> Targets:
        """The labels of the images at these positions, (B,) of int64 on the table's device."""
        concepts = self.concepts[indices]
        weights = (concepts != UNKNOWN).float()
        if self.certainty is not None:
            weights = weights * self.certainty[indices]
        places = None if self.places is None else self.places[self.row[indices]]
        return Targets(self.labels[indices], concepts, weights, places)

    def counts(self, indices: Tensor) -> Counts:
        """What the sums of a batch of these images are divided by."""
        return self.loss.counts_of(self.shares[indices])
