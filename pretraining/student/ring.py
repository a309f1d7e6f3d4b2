"""The last views that the teachers have judged, kept on the accelerator so that each is learned from several times.

A teacher's forward pass costs more than the student's whole step. Every step a few new views replace the oldest and the
student's batch is drawn from all: each view is seen about batch ÷ fresh times, under changing colors and sides.
"""

import torch
from torch import Tensor


class Ring:
    """Named tensors of equal length. A step's rows lie where its number says, so a refilled ring is the same."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.rows: dict[str, Tensor] = {}

    def put(self, batch: dict[str, Tensor], step: int) -> None:
        """Write a step's rows, whose number divides the capacity, over the oldest."""
        number = len(next(iter(batch.values())))
        start = step * number % self.capacity
        for name, values in batch.items():
            if name not in self.rows:
                self.rows[name] = values.new_empty(self.capacity, *values.shape[1:])
            self.rows[name][start : start + number] = values

    def draw(self, number: int, generator: torch.Generator) -> dict[str, Tensor]:
        """A batch of rows of a full ring, with replacement."""
        chosen = torch.randint(self.capacity, (number,), generator=generator, device=generator.device)
        return {name: values[chosen] for name, values in self.rows.items()}


def mirror(batch: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
    """Turn half of the views left to right, with the maps that belong to them: all that has four axes."""
    number = len(next(iter(batch.values())))
    turned = torch.rand(number, generator=generator, device=generator.device) < 0.5
    turned = turned.view(-1, 1, 1, 1)
    return {
        name: torch.where(turned, values.flip(-1), values) if values.ndim == 4 else values
        for name, values in batch.items()
    }
