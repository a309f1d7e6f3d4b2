"""A process that runs one job after another.

Starting Python, torch and a GPU takes as long as a small training, so a process is started once and receives jobs on
its standard input, one complete job in each line. It answers each with a line. If a job kills its process, the next job
gets a new one.
"""

import gc
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from conceptlens.workflows.compare.jobs import Assignment
from conceptlens.workflows.compare.state import JOBS, Places

BUSY = 75  # exit code of a job that another process has (EX_TEMPFAIL)
ANSWER = "conceptlens job:"  # what stands before an answer: a library may print to the same pipe


class Worker:
    """One worker; its process starts with its first job.

    Args:
        places: Where they are.
        slot: The worker's number, for its log.
        environment: Of its process.
    """

    def __init__(self, places: Places, slot: int, environment: Mapping[str, str]) -> None:
        self.words = ["-m", "conceptlens.workflows.compare.worker", str(places.out.absolute())]
        self.log: Path = places.out / JOBS / f"worker-{slot + 1}.log"
        self.environment = dict(environment)
        self.process: subprocess.Popen[str] | None = None

    def do(self, job: Assignment) -> int:
        """Run a job; returns what `conceptlens compare --job` would exit with, or how the process ended."""
        if self.process is None:
            with self.log.open("a", encoding="utf-8") as log:
                self.process = subprocess.Popen(
                    [sys.executable, *self.words],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=self.environment,
                    text=True,
                )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            print(job.to_line(), file=self.process.stdin, flush=True)
        except BrokenPipeError:
            return self._ended()
        for line in self.process.stdout:
            if line.startswith(ANSWER):
                return int(line.removeprefix(ANSWER))
        return self._ended()

    def _ended(self) -> int:
        assert self.process is not None
        code, self.process = self.process.wait(), None
        return code or 1  # it had a job to do and ended without an answer

    def close(self) -> None:
        if self.process is not None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            self.process.wait()
            self.process = None


def work(places: Places, jobs: IO[str], answers: IO[str]) -> None:
    """The main loop of the process: run the jobs that come in until the input ends."""
    import torch

    from conceptlens.workflows.compare.execution import do

    for line in jobs:
        job = Assignment.from_line(line)
        code = BUSY
        if do(job, places):
            code = 1 if places.read_record(job).get("reason") else 0
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # other workers on the same GPU can use the memory
        print(f"{ANSWER} {code}", file=answers, flush=True)


if __name__ == "__main__":
    work(Places(Path(sys.argv[1])), sys.stdin, sys.stdout)
