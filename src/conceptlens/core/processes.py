"""One process or many, by the same code: a thin face of Accelerate for `python` and `accelerate launch` alike."""

import contextlib
import os
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from conceptlens.core.devices import best_device
from conceptlens.core.errors import UserError

T = TypeVar("T")


class Processes:
    """A single process without Accelerate; `Launched` speaks for several."""

    index = 0
    count = 1
    main = True

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def gather(self, value: T) -> list[T]:
        """The value of every process, in order, known to all."""
        return [value]

    def total(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, known to all."""
        return tensor.clone()


class Launched(Processes):
    """The processes that `accelerate launch` started, or the one that plain Python is."""

    def __init__(self, precision: str = "fp32") -> None:
        from accelerate import Accelerator, DistributedDataParallelKwargs

        # Buffers hold counts of each process's own: they must not be overwritten by the first one's.
        keep = DistributedDataParallelKwargs(broadcast_buffers=False, gradient_as_bucket_view=True)
        # Precision is ours: Accelerate's is fixed for the life of a process and rewrites the model's forward.
        launched = int(os.environ.get("WORLD_SIZE", "1"))
        # Said, not left to Accelerate: it would start no group of processes without a GPU, and take a Mac's own.
        self.accelerator = Accelerator(cpu=best_device().type == "cpu", mixed_precision="no", kwargs_handlers=[keep])
        if self.accelerator.num_processes != launched:
            raise UserError(
                f"{launched} processes were launched, but {self.accelerator.num_processes} found each other. Use "
                "`accelerate launch --multi_gpu --num_processes N -m conceptlens …`, also on CPUs."
            )
        self.half = precision == "bf16"
        super().__init__(self.accelerator.device)
        self.index, self.count = self.accelerator.process_index, self.accelerator.num_processes
        self.main = self.accelerator.is_main_process

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.half)

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module on its device, with gradients averaged over processes if there are several."""
        if self.count > 1 and self.device.type == "cuda":
            module = nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
        wrapped: nn.Module = self.accelerator.prepare_model(module)
        return wrapped

    def agree(self, module: nn.Module, *, buffers: bool = False) -> None:
        """Give every process the main one's parameters, after a change that no gradient made; if asked, its buffers."""
        if self.count > 1:
            for tensor in (*module.parameters(), *(module.buffers() if buffers else ())):
                torch.distributed.broadcast(tensor.data, src=0)

    def backward(self, loss: Tensor) -> None:
        """Gradients of this process's part of the batch's loss; shared with the others at the last part.

        Data parallelism averages gradients where the parts of a loss must be added, hence the factor.
        """
        self.accelerator.backward(loss * self.count if self.count > 1 else loss)

    def hold(self, wrapped: nn.Module, last: bool) -> contextlib.AbstractContextManager[Any]:
        """Gradients stay local but in the last accumulation step."""
        if last or self.count == 1:
            return contextlib.nullcontext()
        context: contextlib.AbstractContextManager[Any] = self.accelerator.no_sync(wrapped)
        return context

    def gather(self, value: T) -> list[T]:
        from accelerate.utils import gather_object

        return list(gather_object([value])) if self.count > 1 else [value]

    def total(self, tensor: Tensor) -> Tensor:
        if self.count == 1:
            return tensor.clone()
        summed: Tensor = self.accelerator.reduce(tensor, reduction="sum")
        return summed

    def wait(self) -> None:
        self.accelerator.wait_for_everyone()

    def first(self, work: Callable[[], T]) -> T | None:
        """Let the main process do something alone, the others wait."""
        result = work() if self.main else None
        self.wait()
        return result


def is_main() -> bool:
    """Whether this process may speak: the first of those that `accelerate launch` started, or the only one."""

    return int(os.environ.get("RANK", "0")) == 0
