"""`--plan`: what would run, what is done, and for how long, before anything starts."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from conceptlens.core.documents import ResultMixin
from conceptlens.core.errors import UserError
from conceptlens.core.files import fingerprint, read_json, write_json
from conceptlens.workflows.compare.jobs import Comparison, Job
from conceptlens.workflows.compare.state import JOBS, Places, State, Waiting, all_jobs

STATES: tuple[State, ...] = ("done", "running", "failed", "stopped", "to do")
Row = tuple[str, str]  # data, entry


@dataclass(repr=False)
class Plan(ResultMixin):
    """The jobs of a comparison, how far they are and how long the rest would take."""

    name: str
    jobs: list[Job | Waiting]
    states: dict[str, State]  # by job id
    seconds: dict[Row, float | None] = field(default_factory=dict)  # of one job of each row
    correction: float | None = None  # measured time over estimated time
    problems: dict[Row, str] = field(default_factory=dict)  # rows whose estimate fails

    def to_dict(self) -> dict[str, Any]:
        rows = [{"data": data, "row": row, "seconds": seconds} for (data, row), seconds in self.seconds.items()]
        problems = [{"data": data, "row": row, "problem": text} for (data, row), text in self.problems.items()]
        return {"name": self.name, "jobs": len(self.jobs), "states": self.states, "each": rows, "problems": problems}

    def text(self) -> str:
        rows = list(dict.fromkeys((job.cell.data, job.cell.entry.name) for job in self.jobs))
        words = [f"{data} / {entry}" for data, entry in rows]
        width = max(map(len, words))
        head = "".join(f"{state:>9}" for state in (*STATES, "waiting"))
        lines = [f"{self.name}: {len(self.jobs)} jobs", f"{'':{width}}{head}     each     left"]
        left = 0.0
        for row, word in zip(rows, words, strict=True):
            own = [job for job in self.jobs if (job.cell.data, job.cell.entry.name) == row]
            counts = Counter(self.states[job.id] if isinstance(job, Job) else "waiting" for job in own)
            seconds = self.seconds.get(row)
            open_jobs = len(own) - counts["done"]
            left += (seconds or 0.0) * open_jobs
            figures = "".join(f"{counts[state] or '–':>9}" for state in (*STATES, "waiting"))
            lines.append(f"{word:{width}}{figures}{_spoken(seconds):>9}{_spoken((seconds or 0) * open_jobs):>9}")
        lines.append(f"about {_spoken(left)} one after the other on this machine{self._how()}")
        if any(isinstance(job, Waiting) for job in self.jobs):
            lines.append("waiting: trainings whose settings are chosen by trials on validation")
        lines += [f"cannot run: {data} / {entry}: {problem}" for (data, entry), problem in self.problems.items()]
        lines.append("nothing was started (--plan)")
        return "\n".join(lines)

    def _how(self) -> str:
        if self.correction is None:
            return " (from a few real steps of each row)"
        return f" (from finished jobs; for rows without one, estimates × {self.correction:.2f}, as those took)"


def _spoken(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def make_plan(comparison: Comparison, out: Path, *, time: bool = True) -> Plan:
    """Look at the folder and, for rows that nothing has finished of, take a few steps to see how long they take."""
    places, jobs = Places(out), all_jobs(comparison, out)
    known = [job for job in jobs if isinstance(job, Job)]
    plan = Plan(comparison.name, jobs, {job.id: places.state(job) for job in known})
    if time:
        _estimate(plan, known, places)
    return plan


def _estimate(plan: Plan, jobs: list[Job], places: Places) -> None:
    by_row: dict[Row, list[Job]] = {}
    for job in jobs:
        by_row.setdefault((job.cell.data, job.cell.entry.name), []).append(job)
    measured: dict[Row, float] = {}
    for row, own in by_row.items():
        times = [places.seconds(job) for job in own if plan.states[job.id] == "done"]
        if found := [seconds for seconds in times if seconds is not None]:
            measured[row] = median(found)
    unknown = [row for row in by_row if row not in measured]
    costs = _Costs(places.out)
    ratios = []
    # Two finished rows are enough to see by how much an estimate errs here.
    asked = [*unknown, *(list(measured)[:2] if unknown else [])]
    for row in tqdm(asked, desc="a few steps of each row", unit="row", disable=None):
        try:
            estimated = costs.seconds(by_row[row][0])
        except UserError as error:
            plan.problems[row] = str(error)
            continue
        plan.seconds[row] = estimated
        if row in measured and estimated > 0:
            ratios.append(measured[row] / estimated)
    if measured:
        plan.correction = median(ratios) if ratios else 1.0
        for row in unknown:
            plan.seconds[row] = (plan.seconds.get(row) or 0.0) * plan.correction if row in plan.seconds else None
    plan.seconds |= measured


class _Costs:
    """Estimates, kept in the comparison's folder once it is there."""

    def __init__(self, out: Path) -> None:
        self.path = out / "costs.json"
        self.keeps = (out / JOBS).is_dir()
        self.known: dict[str, float] = read_json(self.path).get("seconds", {}) if self.path.exists() else {}

    def seconds(self, job: Job) -> float:
        from conceptlens.core.processes import Launched
        from conceptlens.training.cost import estimate
        from conceptlens.training.records.progress import Progress
        from conceptlens.training.train import open_session

        key = fingerprint(job.text)
        if key not in self.known:
            session = open_session(job.recipe, None, Launched(job.recipe.training.precision), Progress(quiet=True))
            self.known[key] = round(estimate(session).seconds_in_all, 2)
            if self.keeps:
                write_json(self.path, {"seconds": self.known})
        return self.known[key]
