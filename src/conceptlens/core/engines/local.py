"""Tasks in processes of this machine.

Starting Python, torch and a GPU takes as long as a small training, so a process is started once and receives tasks on
its standard input, one in each line. It answers each with a line. If a task kills its process, it gets a new one.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import IO

from conceptlens.core.engines.contract import RETRIES, Engine, OnEnd, Task, run_line
from conceptlens.core.engines.environment import lone_environment, python
from conceptlens.core.errors import UserError

ANSWER = "conceptlens job:"  # what stands before an answer: a library may print to the same pipe


class Worker:
    """One worker; its process starts with its first task.

    Args:
        log: Where its process writes what it has to say.
        environment: Of its process.
    """

    def __init__(self, log: Path, environment: Mapping[str, str]) -> None:
        self.log, self.environment = log, dict(environment)
        self.process: subprocess.Popen[str] | None = None

    def do(self, task: Task) -> int | None:
        """Run a task; returns its exit code, or None if the process ended without an answer."""
        if self.process is None:
            with self.log.open("a", encoding="utf-8") as log:
                self.process = subprocess.Popen(
                    [*python(), "-m", "conceptlens.core.engines.local"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=self.environment,
                    text=True,
                )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            print(task.to_line(), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            return None
        for line in self.process.stdout:
            if line.startswith(ANSWER):
                return int(line.removeprefix(ANSWER))
        return None

    def ended(self) -> int:
        """How the process ended."""
        assert self.process is not None
        code, self.process = self.process.wait(), None
        return code or 1  # it had a task and ended without an answer

    def close(self) -> None:
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait()
            self.process = None


class LocalEngine(Engine):
    """Several processes at once; on one GPU they share it, several GPUs are assigned in turn."""

    def run(self, tasks: Sequence[Task], on_end: OnEnd) -> None:
        import torch

        if self.options:
            raise UserError(f"--engine-option {next(iter(self.options))}: the local engine has no options.")
        devices, cores = torch.cuda.device_count(), os.cpu_count() or 1
        workers: Queue[Worker] = Queue()
        self.folder.mkdir(parents=True, exist_ok=True)
        for slot in range(min(self.at_once, len(tasks))):
            environment = lone_environment(os.environ, slot, self.at_once, devices, cores)
            workers.put(Worker(self.folder / f"worker-{slot + 1}.log", environment))
        reporting = threading.Lock()

        def one(task: Task) -> None:
            worker = workers.get()
            try:
                for _ in range(RETRIES + 1):
                    if (code := worker.do(task)) is not None:
                        break
                    ended = worker.ended()
            finally:
                workers.put(worker)
            with reporting:
                on_end(task, ended if code is None else code, str(worker.log))

        pool = ThreadPoolExecutor(self.at_once)
        try:
            for finished in [pool.submit(one, task) for task in tasks]:
                finished.result()
        finally:
            pool.shutdown(cancel_futures=True)  # interrupted: queued tasks do not start
            while not workers.empty():
                workers.get().close()


def work(tasks: IO[str], answers: IO[str]) -> None:
    """The main loop of a worker's process: run the tasks that come in until the input ends."""
    for line in tasks:
        print(f"{ANSWER} {run_line(line)}", file=answers, flush=True)


if __name__ == "__main__":
    work(sys.stdin, sys.stdout)
