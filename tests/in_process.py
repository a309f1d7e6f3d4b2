"""An engine for tests: tasks go through their words as with any other, but run in this process."""

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from conceptlens.core.engines import pieces
from conceptlens.core.engines.contract import Engine, OnEnd, Task


class HereEngine(Engine):
    ran: ClassVar[list[Task]] = []

    def run(self, tasks: Sequence[Task], on_end: OnEnd) -> None:
        for task in tasks:
            self.ran.append(task)
            on_end(task, Task.from_line(task.to_line()).run(), "")


def use_this_process(patch: pytest.MonkeyPatch, *modules: Any) -> list[Task]:
    """Let pieces be made here; returns the list in which tasks are noted."""
    HereEngine.ran = []
    for module in (pieces, *modules):
        patch.setattr(module, "make_engine", lambda name, at_once, folder, words=(): HereEngine(at_once, folder))
    return HereEngine.ran
