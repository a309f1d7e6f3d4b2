"""Work on many images in pieces: what a piece gives is a file, and a piece whose file is there is not made again.

One process makes the same pieces in the same order, so the results that are merged do not depend on who made them.
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
    """Who works on the pieces: this process alone, or processes of an engine.

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
    def alone(self) -> bool:
        """This process makes every piece."""
        return self.jobs == 1 and self.engine == "local"

    def make(self, count: int, function: str, arguments: Mapping[str, Any], folder: Path, note: Note) -> list[Path]:
        """The files of so many pieces, in order.

        Args:
            count: Of the pieces.
            function: `module:name` of what makes one: it takes `arguments`, `piece` (a number) and `file`.
            arguments: Values that JSON can say.
            folder: For the files, and for logs; all machines must see it.
            note: Told of each piece.
        """
        files = [folder / f"{piece:05d}.piece" for piece in range(count)]
        missing = [(piece, file) for piece, file in enumerate(files) if not file.exists()]
        tasks = [
            Task(f"piece {piece + 1} of {count}", function, {**arguments, "piece": piece, "file": str(file.absolute())})
            for piece, file in missing
        ]
        if tasks:
            finish(tasks, make_engine(self.engine, self.jobs, folder / "logs", self.options), note)
        return files


ALONE = Workers()


def finish(tasks: Sequence[Task], engine: Engine, note: Note) -> None:
    """Run all tasks.

    Raises:
        UserError: Some failed. What the others made stays.
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
    """0, or 1 where something is wrong, which is said; `local`: nothing is fetched from the network."""
    try:
        with offline() if local else nullcontext():
            work()
    except UserError as error:
        print(error, file=sys.stderr, flush=True)
        return 1
    return 0
