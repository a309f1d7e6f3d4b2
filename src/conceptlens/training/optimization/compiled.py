"""Whether a step is compiled, and how: `training.compile`.

Compiling takes about a minute, and then saves milliseconds in every step: of small batches because starting kernels
costs more than they do, of large ones because fewer of them read and write the same memory. So `auto` compiles on a GPU
from 3,000 steps of a stage on. That is known from the recipe alone, so a resumed run computes as it began.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch

from conceptlens.core.errors import UserError

LEAST_STEPS = 3_000
BACKEND = "inductor"


def compiles(setting: Literal["auto"] | bool, steps: int, device: torch.device) -> bool:
    """Whether a stage of so many steps is compiled."""
    return setting is True or (setting == "auto" and device.type == "cuda" and steps >= LEAST_STEPS)


class Compiled:
    """A function that is compiled at its first call, for inputs of one shape.

    With `graphs`, a GPU runs forward and backward as one CUDA graph each, at the cost of one launch: what comes out
    lives only until the next call, and gradients must be used and dropped before it.

    Args:
        function: Tensors in, tensors out; what it closes over may change its values, not its shapes.
        graphs: Use CUDA graphs, where there is a GPU.
        must: Raise if it cannot be compiled; otherwise it then runs as it is.
        note: Told so.
    """

    def __init__(
        self, function: Callable[..., Any], *, graphs: bool, must: bool, note: Callable[[str], object]
    ) -> None:
        from torch._dynamo.exc import TorchDynamoException  # a second of imports for those who compile

        # What an earlier stage compiled is of no use to this one, but would count against a limit and hold memory.
        torch.compiler.reset()
        self.failure = TorchDynamoException
        self.function, self.graphs, self.must, self.note = function, graphs, must, note
        mode = {"mode": "reduce-overhead"} if graphs and BACKEND == "inductor" else {}
        self.run: Callable[..., Any] = torch.compile(function, dynamic=False, backend=BACKEND, **mode)  # type: ignore[call-overload]

    def __call__(self, *inputs: Any) -> Any:
        if self.run is self.function:
            return self.function(*inputs)
        if self.graphs:
            torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        try:
            return self.run(*inputs)
        except self.failure as error:
            reason = " ".join(str(error).split())[:200]
            if self.must:
                raise UserError(
                    f"training.compile: this step cannot be compiled here ({reason}). Set training.compile to false."
                ) from error
            self.note(f"the step cannot be compiled here and runs as it is ({reason})")
            self.run = self.function
            return self.function(*inputs)
