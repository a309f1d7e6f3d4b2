"""`conceptlens compare`: recipes × data sets × seeds → runs, one table, figures."""

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conceptlens.core import manifest
from conceptlens.core.documents import ResultMixin
from conceptlens.core.engines import EngineName, make_engine
from conceptlens.core.engines.contract import BUSY
from conceptlens.core.errors import UserError, unknown_name
from conceptlens.core.files import dump_yaml, read_json, read_yaml, write_json, write_text
from conceptlens.runs.folder import RunFolder, check_writable, is_only_begun
from conceptlens.workflows.compare.execution import command, do, do_beside, do_here
from conceptlens.workflows.compare.figures import figures
from conceptlens.workflows.compare.file import found_beside, slug
from conceptlens.workflows.compare.jobs import TOKENS, Comparison, Job
from conceptlens.workflows.compare.lock import hold
from conceptlens.workflows.compare.plan import Plan, make_plan
from conceptlens.workflows.compare.results import results
from conceptlens.workflows.compare.shard import Shard, parse_shard
from conceptlens.workflows.compare.significance import MEASURES
from conceptlens.workflows.compare.state import JOBS, Places, Waiting, all_jobs, find_job
from conceptlens.workflows.compare.table import html, latex, markdown


@dataclass(frozen=True, repr=False)
class Compared(ResultMixin):
    """A comparison as far as it is."""

    out: Path
    results: dict[str, Any]  # results.json
    markdown: str  # the table
    failed: list[str]  # "job: reason"
    waiting: int  # trainings that wait for the results of trials

    def to_dict(self) -> dict[str, Any]:
        return {"out": str(self.out), "failed": self.failed, "waiting": self.waiting, "results": self.results}

    def text(self) -> str:
        parts = [self.markdown.rstrip()]
        if self.waiting:
            parts.append(f"{self.waiting} trainings wait for trials of other machines. Call again when they are done.")
        parts.append(f"written to {self.out}: table.md, table.tex, results.json and figures")
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        return html(self.results)


FIRST = ("environment.json", "compare.yaml", JOBS)  # before run.json says what the folder is


def open_comparison(path: str | Path, out: str | Path | None = None) -> tuple[Comparison, Path]:
    """Read a comparison and find its folder: as given, as the file says, or runs/compare-NAME."""
    comparison = Comparison(path)
    primary = comparison.file.statistics.primary
    if primary not in MEASURES:
        raise UserError(f"{comparison.path}: statistics: {unknown_name('measure', primary, MEASURES)}")
    folder = Path(out or comparison.file.out or f"runs/compare-{slug(comparison.path.stem)}").expanduser()
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: expected a folder to write the comparison to, found a file.")
    if folder.is_dir() and not is_only_begun(folder, FIRST):
        info = read_json(folder / "run.json") if (folder / "run.json").exists() else None
        if not isinstance(info, dict) or info.get("kind") != "compare":
            raise UserError(f"{folder}: this folder holds other files; choose an empty one with --out.")
    return comparison, folder


def plan(path: str | Path, *, out: str | Path | None = None) -> Plan:
    """What would run, what is done and how long the rest takes; nothing is started."""
    comparison, folder = open_comparison(path, out)
    return make_plan(comparison, folder)


def commands(path: str | Path, *, out: str | Path | None = None) -> list[str]:
    """A command line for each job that is not done, for any scheduler; a comment for those that wait for trials."""
    comparison, folder = open_comparison(path, out)
    places, jobs = Places(folder), all_jobs(comparison, folder)
    _prepare(comparison, folder)
    todo = [job for job in jobs if isinstance(job, Job) and places.state(job) != "done"]
    lines = [command(comparison, folder, job) for job in todo]
    waiting = sum(isinstance(job, Waiting) for job in jobs)
    if waiting:
        lines.append(f"# {waiting} trainings wait for these trials; list the commands again when they are done")
    return lines


@dataclass(frozen=True, repr=False)
class JobResult(ResultMixin):
    """The outcome of one job: exit code 0 done, 1 failed, 75 running in another process."""

    words: str
    exit_code: int = 0

    def text(self) -> str:
        return self.words


def run_job(path: str | Path, name: str, *, out: str | Path | None = None) -> JobResult:
    """Run one job by its id."""
    comparison, folder = open_comparison(path, out)
    _prepare(comparison, folder)
    places = Places(folder)
    job = find_job(all_jobs(comparison, folder), name)
    if not do(job, places):
        return JobResult(f"{job.id}: running in another process", BUSY)
    reason = places.read_record(job).get("reason")
    return JobResult(f"{job.id}: {reason}", 1) if reason else JobResult(f"{job.id}: done")


def compare(
    path: str | Path,
    *,
    out: str | Path | None = None,
    at_once: int = 1,
    shard: str | None = None,
    engine: EngineName = "local",
    engine_option: Sequence[str] = (),
    quiet: bool = False,
) -> Compared:
    """Run the jobs that are not done and compare the finished ones.

    Args:
        path: The comparison file.
        out: The folder; runs/compare-NAME if not given.
        at_once: Jobs that run at the same time, each as a process of its own.
        shard: `i/n`: only every n-th job, beginning with the i-th.
        engine: What starts these processes: `local`, `ray` or `slurm`.
        engine_option: Its own settings, as `num_gpus=1`.
        quiet: Show no progress.
    """
    if not 1 <= at_once <= 1024:
        raise UserError(f"--jobs {at_once}: expected a number of jobs at once, from 1 to 1024.")
    part = parse_shard(shard)
    comparison, folder = open_comparison(path, out)
    _prepare(comparison, folder)
    places = Places(folder)
    runner = make_engine(engine, at_once, folder / JOBS, engine_option)
    tried: set[str] = set()
    while todo := _todo(all_jobs(comparison, folder), places, part, tried):
        tried |= {job.id for job in todo}
        tell = (lambda _: None) if quiet else (lambda words: print(words, flush=True))
        if at_once > 1 or part.launched or engine != "local" or _has_gpu():
            do_beside(todo, places, runner, tell)
        else:
            do_here(todo, places, tell)
    while True:  # another machine may write the table now without our last run: write it again after that
        with hold(folder / JOBS / "table.lock") as held:
            if held:
                return _write(comparison, folder)
        time.sleep(1)


def _has_gpu() -> bool:
    """With a GPU each job runs in a process of its own, so that its memory is free for the next one."""
    import torch

    return torch.cuda.is_available()


def _todo(jobs: list[Job | Waiting], places: Places, part: Shard, tried: set[str]) -> list[Job]:
    mine = [job for job in part.mine(jobs) if isinstance(job, Job) and job.id not in tried]
    return [job for job in mine if places.state(job) not in ("done", "running")]


def _prepare(comparison: Comparison, folder: Path) -> None:
    """The folder with its run.json and a copy of the file; an older copy is replaced; jobs keep their recipes."""
    folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder)
    manifest.begin(folder)
    (folder / JOBS).mkdir(exist_ok=True)
    run = RunFolder(folder)
    if not (folder / "run.json").exists():
        run.write_environment()
    write_text(folder / "compare.yaml", dump_yaml(found_beside(read_yaml(comparison.path), comparison.path.parent)))
    _describe(comparison, run, "running", None)


def _describe(comparison: Comparison, run: RunFolder, status: str, reason: str | None) -> None:
    run.update(
        id=run.path.name,
        kind="compare",
        method=None,
        status=status,
        reason=reason,
        name=comparison.name,
        data={"name": ", ".join(comparison.file.data)},
        rows=[entry.name for entry in comparison.entries],
    )


def _write(comparison: Comparison, folder: Path) -> Compared:
    places, jobs = Places(folder), all_jobs(comparison, folder)
    found = results(comparison, jobs, places)
    table = markdown(found)
    known = [job for job in jobs if isinstance(job, Job)]
    failed = [f"{job.id}: {places.reason(job)}" for job in known if places.state(job) == "failed"]
    write_json(folder / "results.json", found)
    write_text(folder / "table.md", table)
    write_text(folder / "table.tex", latex(found))
    shutil.rmtree(folder / "figures", ignore_errors=True)
    for data in found["data"]:
        for name, svg in figures(data, found["statistics"]["primary"]).items():
            write_text(folder / "figures" / f"{slug(data['name'])}-{name}.svg", svg)
    complete = all(places.state(job) == "done" for job in known) and len(known) == len(jobs)
    if complete:
        shutil.rmtree(folder / TOKENS, ignore_errors=True)
    reason = f"{len(failed)} jobs failed: {failed[0]}" if failed else None
    _describe(comparison, RunFolder(folder), "done" if complete else "failed" if failed else "running", reason)
    waiting = sum(isinstance(job, Waiting) for job in jobs)
    return Compared(folder, found, table, failed, waiting)
