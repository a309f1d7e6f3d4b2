"""An exponential moving average of the weights, which is then what is evaluated and saved."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn


class WeightAverage:
    """Shadow weights: s ← d · s + (1 − d) · w after every step; d is smaller early on, so the start is forgotten."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay, self.steps = decay, 0
        self.shadow = {name: value.detach().clone() for name, value in module.named_parameters() if value.requires_grad}

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        parameters = dict(module.named_parameters())
        # One call for all: a GPU would wait for a call of each.
        torch._foreach_lerp_(list(self.shadow.values()), [parameters[name] for name in self.shadow], 1 - decay)

    @contextlib.contextmanager
    def applied(self, module: nn.Module) -> Iterator[None]:
        """The module with averaged weights, for an evaluation."""
        parameters = dict(module.named_parameters())
        live = {name: parameters[name].detach().clone() for name in self.shadow}
        self._copy(parameters, self.shadow)
        try:
            yield
        finally:
            self._copy(parameters, live)

    @staticmethod
    @torch.no_grad()
    def _copy(parameters: dict[str, nn.Parameter], values: dict[str, Tensor]) -> None:
        for name, value in values.items():
            parameters[name].copy_(value)

    def tensors(self) -> dict[str, Tensor]:
        return {**self.shadow, "/steps": torch.tensor(self.steps)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        self.steps = int(tensors["/steps"])
        for name, value in self.shadow.items():
            value.copy_(tensors[name])
