"""Tasks as jobs of SLURM, through submitit."""

import time
from collections.abc import Sequence
from typing import Any

from conceptlens.core.engines.contract import RETRIES, Engine, OnEnd, Task, run_line
from conceptlens.core.errors import UserError

POLL = 2.0  # seconds between two looks at the queue


class _Restartable:
    """A task that SLURM may stop and start again: preempted or out of time, it is queued once more."""

    def __call__(self, line: str) -> int:
        return run_line(line)

    def checkpoint(self, line: str) -> Any:
        import submitit

        return submitit.helpers.DelayedSubmission(self, line)  # a training resumes from its last checkpoint


class SlurmEngine(Engine):
    """`options`: parameters of submitit's executor, as `timeout_min`, `mem_gb`, `gpus_per_node`, `slurm_partition`.

    `cluster: local` runs the jobs as processes of this machine, without SLURM. Under SLURM all tasks are one job array,
    of which `at_once` run at the same time.
    """

    def run(self, tasks: Sequence[Task], on_end: OnEnd) -> None:
        try:
            import submitit
        except ImportError:
            raise UserError("--engine slurm needs submitit. Install it: pip install 'conceptlens[slurm]'") from None
        options = dict(self.options)
        cluster = options.pop("cluster", "slurm")
        try:
            executor = submitit.AutoExecutor(folder=self.folder / "slurm", cluster=cluster)
            array = {"slurm_array_parallelism": self.at_once} if cluster == "slurm" else {}
            executor.update_parameters(**{"timeout_min": 24 * 60, **array, **options})
        except (RuntimeError, ValueError, TypeError, NameError) as error:
            raise UserError(f"--engine slurm: {error}") from None
        queue, tries = list(tasks), dict.fromkeys((task.id for task in tasks), 0)
        running: dict[Any, Task] = {}
        try:
            while queue or running:
                free = len(queue) if cluster == "slurm" else self.at_once - len(running)
                first, queue = queue[:free], queue[free:]
                if first:
                    with executor.batch():
                        jobs = [executor.submit(_Restartable(), task.to_line()) for task in first]
                    running |= dict(zip(jobs, first, strict=True))
                ended = [job for job in running if job.done()]
                for job in ended:
                    task = running.pop(job)
                    failure = job.exception()
                    tries[task.id] += 1
                    if failure is not None and tries[task.id] <= RETRIES:
                        queue.append(task)
                    else:
                        on_end(task, job.result() if failure is None else 1, str(job.paths.stderr))
                if not ended and running:
                    time.sleep(POLL if cluster == "slurm" else POLL / 10)
        finally:
            for job in running:
                job.cancel()
