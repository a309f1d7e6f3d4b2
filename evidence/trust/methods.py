"""Leakage, use and interventions of finished runs: what they keep of their test images is enough."""

from pathlib import Path
from typing import Any

import numpy as np
from results import Results, short

from conceptlens.concepts import ConceptSet
from conceptlens.core.errors import UserError
from conceptlens.evaluation.interventions.measure import measure_interventions
from conceptlens.evaluation.leakage.leakage import measure_leakage
from conceptlens.methods.linear_head import LinearHead
from conceptlens.runs.folder import RunFolder
from conceptlens.runs.opened import OpenedRun
from conceptlens.runs.predictions import load_predictions
from conceptlens.runs.readout import Readout
from conceptlens.stats.estimates import Bootstrap, Estimate

RESAMPLES = 500


def told(estimate: Estimate | None) -> list[float | None] | None:
    """Value, low, high."""
    if estimate is None:
        return None
    return [short(estimate.value), *(short(end) for end in estimate.interval or (None, None))]


def without_weights(path: Path, every: int) -> Readout:
    """From what a run keeps of its test images alone, where its weights were left on another machine.

    The head is linear, and its weights are those that turn the kept concept scores into the kept class scores.
    """
    stored, concepts = load_predictions(path, "test"), ConceptSet.load(path / "concepts.yaml")
    scores, said = stored.concept_logits.astype(np.float64), stored.logits.astype(np.float64)
    padded = np.concatenate([scores, np.ones((len(scores), 1))], axis=1)
    solved = np.linalg.lstsq(padded, said, rcond=None)[0]
    assert np.abs(padded @ solved - said).max() < 1e-2 * said.std(), "the head is not linear in the concept scores"
    head = LinearHead(solved[:-1].T, solved[-1], bypass=False)
    rows = slice(None, None, every)
    return Readout(
        concepts, stored.classes, stored.task, stored.thresholds, stored.ids[rows], stored.units[rows], "logit", None,
        scores[rows], scores[rows], stored.concepts[rows], stored.labels[rows], np.zeros_like(said[rows]),
        head.logits, head,
    )  # fmt: skip


def measure(path: Path, every: int = 1) -> dict[str, Any]:
    """Everything about one run that the page speaks of."""
    run = RunFolder.open(path)
    row: dict[str, Any] = {"method": run.info["method"], "data": run.info["data"]["name"], "seed": run.info["seed"]}
    row["regularizer"] = run.info.get("regularizer")
    try:
        weights = (path / "model" / "weights.safetensors").exists()
        readout = OpenedRun.open(path).readout() if weights else without_weights(path, every)
    except UserError as error:
        return {**row, "refused": str(error).partition(": ")[2]}
    bootstrap = Bootstrap(readout.units, RESAMPLES)
    leakage = measure_leakage(readout, bootstrap)
    row |= {
        "bypass": leakage.bypass,
        "images": leakage.images,
        "chance": short(leakage.chance),
        "leaks": leakage.leaks,
        "certain_concepts": sum(each.chance is not None and each.chance.adjusted <= 0.05 for each in leakage.concepts),
        "concepts": len(leakage.concepts),
        "findings": {
            each.name.strip(): {
                "value": told(each.estimate),
                **(
                    {}
                    if each.chance is None
                    else {"permuted": told(each.chance.permuted), "excess": told(each.chance.excess)}
                ),
                **({} if each.chance is None else {"p": each.chance.adjusted, "verdict": each.verdict}),
            }
            for each in leakage.findings
        },
        "path": {nec: told(each) for nec, each in leakage.effective.path.items()},
    }
    found = measure_interventions(readout, bootstrap, orders=("chance", "expected gain"))
    tests = [each for each in found.counterfactuals if len(each.rows) > 1]
    row["interventions"] = {
        "start": told(found.start),
        "ceiling": told(found.ceiling),
        "right": {curve.policy: [short(point.value) for point in curve.points] for curve in found.curves},
        "wrong": {curve.policy: [short(point.value) for point in curve.wrong] for curve in found.curves},
        "flips": None if found.flips is None else found.flips.median,
        "counterfactuals": [
            {
                "of": each.of,
                "images": each.images,
                "rows": [[line.intervene_on, told(line.probability), told(line.relative_change)] for line in each.rows],
                "random": None if each.random is None else told(each.random.relative_change),
            }
            for each in tests
        ],
    }
    row["concept_accuracy"] = _concept_balanced_accuracy(run)
    return row


def _concept_balanced_accuracy(run: RunFolder) -> float | None:
    from conceptlens.core.files import read_json

    test = read_json(run.path / "metrics.json")["splits"].get("test", {})
    value = test.get("concept", {}).get("balanced_accuracy")
    return None if value is None or not np.isfinite(value) else short(value)


def run(folder: Path, name: str, seconds: float, *, every: int = 1, only: str = "") -> None:
    """Every finished run in a folder, those of the first seed first."""
    found = {path.parent.name: path.parent for path in sorted(folder.glob("*/run.json"))}
    done = {each: path for each, path in found.items() if RunFolder.open(path).info["status"] == "done"}
    results = Results(name, seconds)
    named = [
        each for each in done if "random-text" not in each and each.startswith(only)
    ]  # controls of words are another page's
    order = sorted(named, key=lambda each: (RunFolder.open(done[each]).info["seed"], each))
    for each in results.missing(order):
        results.put(each, measure(done[each], every))
