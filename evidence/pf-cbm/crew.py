"""Processes that share one device and take trainings from a line; one parent writes what they find.

A training of this lab is a replayed graph of small kernels between stretches of Python: several at once fill a GPU. The
parent forks before anything touches the device, so that what was read of the annotations is there in every process.
"""

import multiprocessing
import os
import queue
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Work = Callable[[Any], Any]
LOOK = 2.0  # seconds between looks at who is still there


def _serve(work: Work, tasks: Any, results: Any) -> None:
    parent = os.getppid()
    while os.getppid() == parent:  # a parent that was killed leaves nobody behind
        try:
            asked = tasks.get(timeout=LOOK)
        except queue.Empty:
            continue
        if asked is None:
            return
        number, task = asked
        results.put((number, work(task)))


class Crew:
    """Some processes that do what `work` says; a task's answer must be plain data."""

    def __init__(self, size: int, work: Work) -> None:
        there = multiprocessing.get_context("fork")
        self.tasks, self.results = there.Queue(), there.Queue()
        self.members = [there.Process(target=_serve, args=(work, self.tasks, self.results)) for _ in range(size)]
        for member in self.members:
            member.start()

    def each(self, tasks: Sequence[Any], *, late: Callable[[], bool]) -> Iterator[tuple[Any, Any]]:
        """Tasks with their answers as they come. None begins once it is `late`; a process that dies takes its task."""
        waiting, begun, number = list(enumerate(tasks)), 0, 0
        while True:
            while waiting and begun - number < len(self.members) and not late():
                self.tasks.put(waiting.pop(0))
                begun += 1
            if begun == number:
                return
            try:
                at, answer = self.results.get(timeout=LOOK)
            except queue.Empty:
                gone = [member for member in self.members if not member.is_alive()]
                self.members = [member for member in self.members if member.is_alive()]
                begun -= len(gone)
                if gone:
                    print(f"{len(gone)} processes died, each with the task it had", flush=True)
                if not self.members:
                    return
                continue
            number += 1
            yield tasks[at], answer

    def dismiss(self) -> None:
        for _ in self.members:
            self.tasks.put(None)
        for member in self.members:
            member.join()
