"""`results.json`: everything a comparison found, as data; tables and figures only read it."""

from pathlib import Path
from typing import Any

import numpy as np

from conceptlens.core.registry import METHODS
from conceptlens.workflows.compare.file import StatisticsFile
from conceptlens.workflows.compare.gather import Gathered, Row, gather
from conceptlens.workflows.compare.jobs import Comparison, Job
from conceptlens.workflows.compare.significance import MEASURES, Judged, Versus, judge
from conceptlens.workflows.compare.state import Places, Waiting
from conceptlens.workflows.compare.supervision_blocks import TITLES, blocks
from conceptlens.workflows.compare.zero_shot import zero_shot

NOT_BEST = "highest, without a significant difference from all others"
NUMBERS = ("rank.effective", "rank.published", "effective_concepts", "seconds")


def results(comparison: Comparison, jobs: list[Job | Waiting], places: Places) -> dict[str, Any]:
    """What is finished, compared; and what is not finished, named."""
    counted = [job for job in jobs if isinstance(job, Waiting) or job.trial is None]
    done = [job for job in counted if isinstance(job, Job) and places.state(job) == "done"]
    failed = [job for job in jobs if isinstance(job, Job) and places.state(job) == "failed"]
    settings = comparison.file.statistics
    folds = comparison.file.folds
    sets = []
    for data in comparison.file.data:
        runs = [(job, places.run(job)) for job in done if job.cell.data == data]
        found = gather(data, runs, folds=folds.k if folds else 1)
        if found is not None:
            sets.append(_data_set(found, settings, places.out))
    everything = {
        "name": comparison.name,
        "seeds": comparison.file.seeds,
        "folds": folds.model_dump() if folds else None,
        "trials": max(len(entry.trials) for entry in comparison.entries),
        "statistics": settings.model_dump(),
        "jobs": {"done": len(done), "of": len(counted)},
        "failed": [{"job": job.id, "reason": places.reason(job)} for job in failed],
        "data": sets,
    }
    cleaned: dict[str, Any] = _known(everything)
    return cleaned


def _known(value: Any) -> Any:
    """What cannot be computed is nothing, not a number that is none."""
    if isinstance(value, dict):
        return {key: _known(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_known(each) for each in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _data_set(found: Gathered, settings: StatisticsFile, out: Path) -> dict[str, Any]:
    encoders: dict[str, dict[str, Any]] = {}
    largest = max((len(row.concepts) for row in found.rows), default=0)  # some methods choose among the concepts
    for row in found.rows:
        if len(row.concept_sets) == 1 and len(row.concepts) == largest > 0:
            before = zero_shot(row.recipe, row.concepts, found.ids, out)
            if before is not None:
                encoders.setdefault(f"{before['encoder']} {before['auc']}", before)
    return {
        "name": found.data,
        "images": len(found.ids),
        "units": len(np.unique(found.units)),
        "classes": len(found.classes),
        "zero_shot": list(encoders.values()),
        "blocks": [_block(name, rows, found, settings) for name, rows in blocks(found).items()],
    }


def _block(name: str, rows: list[Row], found: Gathered, settings: StatisticsFile) -> dict[str, Any]:
    judged = judge(rows, found.units, settings)
    ranked = [row.entry.name for row in rows if row.entry.control_of is None]
    return {
        "supervision": name,
        "title": TITLES[name],
        "rows": [_row(row, judged, settings) for row in _controls_behind(rows)],
        "best": {measure: judged.best(measure, ranked) for measure in MEASURES},
        "comparisons": [each.to_json() for each in judged.versus],
        "controls": [each.to_json() for each in judged.controls],
        "verdicts": verdicts(judged, ranked, settings.primary),
    }


def _controls_behind(rows: list[Row]) -> list[Row]:
    names = [row.entry.name for row in rows]
    return sorted(rows, key=lambda row: (names.index(_of(row, names)), row.entry.control_of is not None))


def _of(row: Row, names: list[str]) -> str:
    return row.entry.control_of if row.entry.control_of in names else row.entry.name


def _row(row: Row, judged: Judged, settings: StatisticsFile) -> dict[str, Any]:
    measures: dict[str, Any] = {}
    for name, spread in judged.spreads[row.entry.name].items():
        several = len(spread.plain) > 1
        measures[name] = {
            "mean": spread.mean,
            "sd": float(spread.plain.std(ddof=1)) if several else None,
            "interval": spread.interval(settings.confidence, within=(0.0, 1.0)),
            "by_training": spread.plain.tolist(),
        }
    numbers = {
        name: {
            "mean": float(np.mean(values)),
            "sd": float(np.std(values, ddof=1)) if len(values) > 1 else None,
            "by_run": values,
        }
        for name, values in row.numbers.items()
    }
    method = str(row.info["method"])
    return {
        "name": row.entry.name,
        "control_of": row.entry.control_of,
        "method": method,
        "regularizer": row.info.get("regularizer"),
        "encoder": row.recipe.encoder.name,
        "encoder_trains": row.recipe.encoder.train,
        "text": row.recipe.encoder.text,
        "bypass": row.info.get("bypass") or getattr(METHODS.get(method), "bypass", None),
        "trainings": len(row.trainings),
        "chosen": row.chosen,
        "concepts": len(row.concepts),
        "measures": measures,
        "numbers": numbers,
        "ranks": _curves(row),
    }


def _curves(row: Row) -> dict[str, list[list[float]]]:
    """By epoch: mean, lowest and highest rank on validation images over the runs that have that epoch."""
    curves: dict[str, list[list[float]]] = {}
    for key in ("rank.effective", "rank.published"):
        by_epoch: dict[int, list[float]] = {}
        for lines in row.ranks:
            for line in lines:
                if isinstance(value := line.get(key), (int, float)):
                    by_epoch.setdefault(int(line["epoch"]), []).append(float(value))
        if by_epoch:
            curves[key] = [
                [epoch, float(np.mean(values)), min(values), max(values)] for epoch, values in sorted(by_epoch.items())
            ]
    return curves


def verdicts(judged: Judged, ranked: list[str], primary: str) -> dict[str, str]:
    """In words, for each row: against the best of its block, or its method if it is a control."""
    words: dict[str, str] = {}
    means = {name: judged.spreads[name][primary].mean for name in ranked if primary in judged.spreads[name]}
    if means:
        top = max(means, key=lambda name: means[name])
        pairs = [each for each in judged.versus if each.measure == primary]
        for name in [name for name in means if name != top]:
            pair = next((each for each in pairs if {each.first, each.second} == {name, top}), None)
            words[name] = _verdict(pair, top)
        if len(means) > 1:
            words[top] = "best" if judged.best(primary, ranked) == top else NOT_BEST
    for each in judged.controls:
        if each.measure == primary:
            words[each.second] = _verdict(each, each.first)
    return words


def _verdict(pair: Versus | None, other: str) -> str:
    if pair is None:
        return f"not comparable with {other}"
    gap = abs(pair.difference)
    if not pair.different:
        return f"no significant difference from {other} (smallest detectable: {100 * pair.detectable:.1f})"
    first_is_other = pair.first == other
    behind = (pair.difference > 0) == first_is_other
    p = f"p = {pair.p:.3f}" if pair.p >= 0.001 else "p < 0.001"
    return f"{100 * gap:.1f} {'behind' if behind else 'ahead of'} {other} ({p})"
