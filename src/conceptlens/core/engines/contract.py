"""What an engine is handed, and what it answers."""

import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from conceptlens.core.plugins import add_allowed_code, allowed_code

BUSY = 75  # exit code of a task that another process has (EX_TEMPFAIL)
RETRIES = 2  # of a task whose process was lost; a training resumes from its last checkpoint


@dataclass(frozen=True)
class Task:
    """A unit of work: all that another process must know to do it.

    Args:
        id: Its name in messages.
        function: `module:name` of a function of the package that takes `arguments` and returns an exit code.
        arguments: Values that JSON can hold.
    """

    id: str
    function: str
    arguments: dict[str, Any]

    def to_line(self) -> str:
        """As JSON in one line, with the code that the user has allowed: it may run in the other process, too."""
        return json.dumps({**asdict(self), "allowed": allowed_code()})

    @classmethod
    def from_line(cls, line: str) -> "Task":
        values = json.loads(line)
        add_allowed_code(values.pop("allowed"))
        return cls(**values)

    def run(self) -> int:
        """Do it in this process: 0 done, 1 failed, 75 running elsewhere."""
        module, _, name = self.function.partition(":")
        code: int = getattr(importlib.import_module(module), name)(**self.arguments)
        return code


OnEnd = Callable[[Task, int, str], None]  # the task, its exit code, and where the log of a lost process is


class Engine(ABC):
    """Runs tasks, in any order, each at least once and until it answers.

    Args:
        at_once: Tasks that run at the same time.
        folder: For logs.
        options: The engine's own.
    """

    def __init__(self, at_once: int, folder: Path, options: dict[str, Any] | None = None) -> None:
        self.at_once, self.folder, self.options = at_once, folder, dict(options or {})

    @abstractmethod
    def run(self, tasks: Sequence[Task], on_end: OnEnd) -> None:
        """Run all tasks; `on_end` is called in one thread at a time, as they end.

        A task whose process is lost is tried again; if it is lost each time, its code says how its process ended.
        """


def run_line(line: str) -> int:
    """Do a task that came as text."""
    return Task.from_line(line).run()
