"""Work on many images in chunks, by this process or by several processes of an engine.

The result of a chunk is a file, and a chunk whose file exists is not computed again. One process computes the same
chunks in the same order, so the merged result does not depend on how many processes there are.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conceptlens.core.engines import EngineName, Task, make_engine
from conceptlens.core.engines.contract import Engine
from conceptlens.core.errors import UserError
from conceptlens.core.network import offline
from conceptlens.core.progress import Note


@dataclass(frozen=True)
class Workers:
    """Which processes compute the chunks: this one alone, or those of an engine.

    Args:
        jobs: Processes at once.
        engine: What starts them.
        options: The engine's own, as `num_gpus=1`.
    """

    jobs: int = 1
    engine: EngineName = "local"
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise UserError(f"--jobs: expected 1 or more, got {self.jobs}.")

    @property
    def in_process(self) -> bool:
        """Whether this process computes every chunk."""
        return self.jobs == 1 and self.engine == "local"

    def compute(self, count: int, function: str, arguments: Mapping[str, Any], folder: Path, note: Note) -> list[Path]:
        """Compute the chunks that have no file yet; returns the files of all, in order.

        Args:
            count: Number of chunks.
            function: `module:name` of what computes one: it takes `arguments`, `chunk` (a number) and `file`.
            arguments: Values that JSON can hold.
            folder: For the files and for logs; all machines must see it.
            note: Called with a message after each chunk.
        """
        files = [folder / f"{chunk:05d}.chunk" for chunk in range(count)]
        tasks = [
            Task(f"chunk {chunk + 1} of {count}", function, {**arguments, "chunk": chunk, "file": str(file.absolute())})
            for chunk, file in enumerate(files)
            if not file.exists()
        ]
        self.run(tasks, folder / "logs", note)
        return files

    def run(self, tasks: Sequence[Task], logs: Path, note: Note) -> None:
        """Run tasks in processes of the engine, see `run_tasks`."""
        if tasks:
            run_tasks(tasks, make_engine(self.engine, self.jobs, logs, self.options), note)


IN_PROCESS = Workers()


def run_tasks(tasks: Sequence[Task], engine: Engine, note: Note) -> None:
    """Run all tasks.

    Raises:
        UserError: Some failed. The results of the others stay.
    """
    failed: list[str] = []

    def on_end(task: Task, code: int, log: str) -> None:
        note(f"{task.id}: {'done' if not code else 'failed'}")
        if code:
            failed.append(f"{task.id} (see {log})" if log else task.id)

    if tasks:
        engine.run(tasks, on_end)
    if failed:
        raise UserError(f"{', '.join(failed)}: a process failed. Mend the cause; the same command goes on.")


def exit_code(work: Callable[[], object], *, local: bool) -> int:
    """Do the work of a task: 0, or 1 after printing what is wrong. With `local`, the network is not used."""
    try:
        with offline() if local else nullcontext():
            work()
    except UserError as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    return 0
