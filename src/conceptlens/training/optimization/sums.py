"""The losses of an epoch, summed where they are made; a glance at them does not make a GPU wait."""

from collections.abc import Mapping

import torch
from torch import Tensor

from conceptlens.core.processes import Processes


class Sums:
    """Sums of the loss terms over the steps of an epoch, in float64 on the device.

    Args:
        start: What a resumed epoch had summed up before.
        device: Where the losses are made.
    """

    def __init__(self, start: Mapping[str, float], device: torch.device) -> None:
        self.names = sorted(start)
        self.values = torch.tensor([start[name] for name in self.names], dtype=torch.float64, device=device)
        self._copy: tuple[Tensor, torch.cuda.Event, int] | None = None  # on its way here, and of how many steps
        self._seen: float | None = None

    def add(self, terms: Mapping[str, Tensor]) -> None:
        """Add the terms of a step; each step has the same ones."""
        if not self.names:
            self.names = sorted(terms)
            self.values = self.values.new_zeros(len(terms))
        self.values += torch.stack([terms[name].detach() for name in self.names])

    def glance(self, steps: int) -> float | None:
        """The mean loss over the epoch so far, or over its part that the device had done at the last glance."""
        if self.values.device.type != "cuda":
            return float(self.values.sum()) / steps
        if self._copy is not None and self._copy[1].query():  # type: ignore[no-untyped-call]
            self._seen, self._copy = float(self._copy[0]) / self._copy[2], None
        if self._copy is None:
            here = torch.empty((), dtype=torch.float64, pin_memory=True)
            here.copy_(self.values.sum(), non_blocking=True)
            arrived = torch.cuda.Event()  # type: ignore[no-untyped-call]
            arrived.record()
            self._copy = here, arrived, steps
        return self._seen

    def totals(self, processes: Processes) -> dict[str, float]:
        """The sums over all processes, as plain numbers."""
        return dict(zip(self.names, processes.total(self.values).tolist(), strict=True))
