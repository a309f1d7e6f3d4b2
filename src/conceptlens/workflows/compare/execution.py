"""Runs the jobs: in this process one after the other, or several at once in other processes."""

import gc
import shlex
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from conceptlens.core.engines.contract import BUSY, Engine, Task
from conceptlens.core.errors import UserError
from conceptlens.core.files import file_hash, write_json, write_text
from conceptlens.workflows.compare.jobs import Assignment, Comparison, Job
from conceptlens.workflows.compare.lock import hold
from conceptlens.workflows.compare.state import Places, same_recipe

Tell = Callable[[str], None]


def job_words(comparison: Comparison, out: Path, job: Job) -> list[str]:
    """The arguments of a command line that runs one job."""
    return ["compare", str(comparison.path.absolute()), "--out", str(out.absolute()), "--job", job.id]


def command(comparison: Comparison, out: Path, job: Job) -> str:
    """The command line of one job, for any scheduler."""
    return shlex.join(["conceptlens", *job_words(comparison, out, job)])


def do(job: Assignment, places: Places) -> bool:
    """Train a job here, resuming what was begun; False if another process has it. A failure is recorded, not raised."""
    with hold(places.lock(job)) as held:
        if not held:
            return False
        started, reason = time.monotonic(), None
        before = (places.seconds(job) or 0.0) if (places.run(job) / "run.json").exists() else 0.0
        try:
            _train(job, places.run(job))
        except UserError as error:
            reason = str(error)
        except (KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:  # a failed job must not stop the others, whatever it was
            reason = f"{type(error).__name__}: {error}"
            write_text(places.log(job), traceback.format_exc())
        write_json(
            places.record(job),
            {
                "id": job.id,
                "status": "failed" if reason else "done",
                "reason": reason,
                "seconds": round(before + time.monotonic() - started, 2),
                "host": socket.gethostname(),
                "recipe": file_hash(recipe) if reason is None and (recipe := places.recipe(job)).exists() else None,
            },
        )
    return True


def _train(job: Assignment, folder: Path) -> None:
    from conceptlens.reports.page import write_report
    from conceptlens.training.train import resume_run, start_run

    report = write_report if job.trial is None else _no_report
    if (folder / "run.json").exists() and same_recipe(folder, job):
        resume_run(folder, report, quiet=True)
    else:
        start_run(job.recipe, report, overwrite=True, quiet=True)


def _no_report(*_: object) -> None:
    """A trial gets no report: only its validation metrics are used."""


def do_here(jobs: Sequence[Job], places: Places, tell: Tell) -> None:
    """One after the other."""
    for number, job in enumerate(jobs, 1):
        tell(f"{number}/{len(jobs)} {job.id}")
        _report(job, places, tell, busy=not do(job, places))


def do_beside(jobs: Sequence[Job], places: Places, engine: Engine, tell: Tell) -> None:
    """In other processes, as the engine arranges it."""
    started, ended = time.monotonic(), 0

    def on_end(task: Task, code: int, log: str) -> None:
        nonlocal ended
        ended += 1
        job = known[task.id]
        if code not in (0, BUSY) and places.state(job) != "failed":
            how = f"signal {-code}" if code < 0 else f"code {code}"
            reason = f"its process ended by {how}" + (f"; see {log}" if log else "")
            write_json(places.record(job), {"id": job.id, "status": "failed", "reason": reason, "seconds": None})
        _report(job, places, tell, busy=code == BUSY)
        left = (time.monotonic() - started) / ended * (len(jobs) - ended)
        tell(f"{ended}/{len(jobs)} jobs ended, {engine.at_once} at once, about {left / 60:.0f} min left")

    known = {job.id: job for job in jobs}
    out = str(places.out.absolute())
    engine.run([Task(job.id, RUN_JOB, {"out": out, "job": job.to_line()}) for job in jobs], on_end)


RUN_JOB = f"{__name__}:run_assignment"


def run_assignment(out: str, job: str) -> int:
    """Run a job that came from another process; returns what `conceptlens compare --job` would exit with."""
    import torch

    places, assignment = Places(Path(out)), Assignment.from_line(job)
    code = BUSY
    if do(assignment, places):
        code = 1 if places.read_record(assignment).get("reason") else 0
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()  # other workers on the same GPU can use the memory
    return code


def _report(job: Job, places: Places, tell: Tell, *, busy: bool) -> None:
    state = "running in another process" if busy else places.state(job)
    took = places.seconds(job)
    tell(
        f"  {job.id}: {state}"
        + (f", {places.reason(job)}" if state == "failed" else "")
        + (f" ({took:.0f} s)" if state == "done" and took is not None else "")
    )
