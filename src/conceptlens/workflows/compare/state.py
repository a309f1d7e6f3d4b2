"""How far each job is, by the files in the comparison's folder alone: the same on every machine."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from conceptlens.core.errors import UserError
from conceptlens.core.files import file_hash, parse_yaml, read_json
from conceptlens.runs.folder import RunFolder
from conceptlens.workflows.compare.jobs import RUNS, Assignment, Cell, Comparison, Job, signature
from conceptlens.workflows.compare.lock import is_held
from conceptlens.workflows.compare.trials import chosen

JOBS = "jobs"
State = Literal["done", "running", "failed", "stopped", "to do"]


@dataclass(frozen=True)
class Waiting:
    """A training whose settings the trials of its cell will choose."""

    cell: Cell
    seed: int


@dataclass(frozen=True)
class Places:
    """Where things are in a comparison's folder."""

    out: Path

    def run(self, job: Assignment) -> Path:
        return self.out / RUNS / job.id

    def lock(self, job: Assignment) -> Path:
        return self.out / JOBS / f"{job.id}.lock"

    def log(self, job: Assignment) -> Path:
        return self.out / JOBS / f"{job.id}.log"

    def record(self, job: Assignment) -> Path:
        return self.out / JOBS / f"{job.id}.json"

    def recipe(self, job: Assignment) -> Path:
        return self.run(job) / "recipe.yaml"

    def state(self, job: Assignment) -> State:
        """Done is a run that is done and was made from the same recipe."""
        if is_held(self.lock(job)):
            return "running"
        folder = self.run(job)
        if not (folder / "run.json").exists():
            return "failed" if self.reason(job) else "to do"
        # A finished job noted a hash of the recipe that it was made from: reading the recipe takes far longer.
        noted = self.read_record(job).get("recipe") if self.recipe(job).exists() else None
        if (noted is None or noted != file_hash(self.recipe(job))) and not same_recipe(folder, job):
            return "to do"
        status = RunFolder(folder).info["status"]
        if status == "running":
            return "failed" if self.read_record(job).get("status") == "failed" else "stopped"
        return "done" if status == "done" else "failed"

    def reason(self, job: Assignment) -> str | None:
        """Why a job failed."""
        folder, record = self.run(job), self.read_record(job)
        known = RunFolder(folder).info.get("reason") if (folder / "run.json").exists() else None
        return str(record.get("reason") or known) if record.get("reason") or known else None

    def read_record(self, job: Assignment) -> dict[str, Any]:
        """What was noted of a job's last attempt: status, seconds, reason, host."""
        path = self.record(job)
        record = read_json(path) if path.exists() else {}
        return record if isinstance(record, dict) else {}

    def seconds(self, job: Assignment) -> float | None:
        """How long a job took from start to end."""
        value = self.read_record(job).get("seconds")
        return float(value) if isinstance(value, (int, float)) else None


def same_recipe(folder: Path, job: Assignment) -> bool:
    """Whether a run was made from a job's recipe."""
    file = folder / "recipe.yaml"
    return file.exists() and _signature(str(file), file.stat().st_mtime_ns) == job.text


@lru_cache(maxsize=100_000)
def _signature(file: str, _: int) -> str:
    tree = parse_yaml(Path(file).read_text("utf-8"), where=file)
    return signature(tree) if isinstance(tree, dict) else ""


def all_jobs(comparison: Comparison, out: Path) -> list[Job | Waiting]:
    """Trials first, then what counts; the order does not depend on what is done, so that shards stay the same."""
    file, places = comparison.file, Places(out)
    tuning_seed = file.trials.seed if file.trials and file.trials.seed is not None else file.seeds[0]
    trials: list[Job | Waiting] = []
    final: list[Job | Waiting] = []
    for cell in comparison.cells():
        tried = [
            comparison.job(cell, settings, tuning_seed, number, out)
            for number, settings in enumerate(cell.entry.trials)
        ]
        trials += tried
        settings = _settled(tried, places)
        for seed in file.seeds:
            final.append(Waiting(cell, seed) if settings is None else comparison.job(cell, settings, seed, None, out))
    return trials + final


def _settled(tried: list[Job], places: Places) -> dict[str, Any] | None:
    """The settings that trials chose; nothing to choose without trials; None while some are not done.

    A trial that failed (a rate at which training diverges) has been tried: it loses.
    """
    if not tried:
        return {}
    states = [places.state(job) for job in tried]
    done = [job for job, state in zip(tried, states, strict=True) if state == "done"]
    if not done or any(state not in ("done", "failed") for state in states):
        return None
    best = chosen([places.run(job) for job in done], done[0].recipe.training.select)
    return done[best].settings


def find_job(jobs: list[Job | Waiting], name: str) -> Job:
    """The job of that id.

    Raises:
        UserError: There is none (yet).
    """
    from conceptlens.core.errors import did_you_mean

    known = {job.id: job for job in jobs if isinstance(job, Job)}
    if name not in known:
        waiting = any(isinstance(job, Waiting) for job in jobs)
        hint = " Some jobs are known only when trials are done." if waiting else ""
        raise UserError(f"No job is called {name!r}. {did_you_mean(name, known)}{hint}")
    return known[name]
