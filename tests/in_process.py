"""An engine for tests: tasks go through their words as with any other, but run in this process."""

from collections.abc import Sequence
from typing import ClassVar

import pytest

from conceptlens.core.engines import workers
from conceptlens.core.engines.contract import Engine, OnEnd, Task


class HereEngine(Engine):
    ran: ClassVar[list[Task]] = []

    def run(self, tasks: Sequence[Task], on_end: OnEnd) -> None:
        for task in tasks:
            self.ran.append(task)
            on_end(task, Task.from_line(task.to_line()).run(), "")


def use_this_process(patch: pytest.MonkeyPatch) -> list[Task]:
    """Let tasks run in this process; returns the list in which they are noted."""
    HereEngine.ran = []
    patch.setattr(workers, "make_engine", lambda name, at_once, folder, words=(): HereEngine(at_once, folder))
    return HereEngine.ran
